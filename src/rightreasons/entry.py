"""Where values of a few features go into a net, and how gradients come back to them."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from rightreasons.bounds import Box
from rightreasons.fold import Fold
from rightreasons.types import Interval

__all__ = ["Entry", "FoldedEntry", "ScatteredEntry"]


class Entry(ABC):
    """A net as a function of ``M`` of its features, ``(N, M)``, in two steps: entry, then net.

    Args:
        net: From the entry to the logits.
        values: Of the features, at the samples.
        columns: Which of the flattened features they are.
    """

    def __init__(self, *, net: nn.Module, values: Tensor, columns: Tensor) -> None:
        self.net = net
        self.values = values
        self.columns = columns

    @abstractmethod
    def enter(self, values: Tensor, *, detached: bool) -> Tensor:
        """What the net gets for ``values``, ``(N, M)`` or copies of it, copy after copy.

        Args:
            values: May carry a graph.
            detached: Whether to leave the weights' graph out.
        """

    @abstractmethod
    def pull(self, gradient: Tensor, *, detached: bool = False) -> Tensor:
        """The gradient at the entry, brought to the features: ``(..., M)``."""

    @abstractmethod
    def enter_box(self, interval: Interval) -> Box:
        """All that the net gets for values in ``interval``."""

    @abstractmethod
    def pull_box(self, gradient: Box) -> Box:
        """Bounds of the gradient at the entry, brought to the features."""


class FoldedEntry(Entry):
    r"""Behind an affine first layer: :math:`z + W_S (v - v_0)`.

    Args:
        fold: The net in two halves.
        entered: ``z``, what the first layer gives for the samples.
        values: ``v_0``.
        columns: ``S``.
    """

    def __init__(self, *, fold: Fold, entered: Tensor, values: Tensor, columns: Tensor) -> None:
        super().__init__(net=fold.tail, values=values, columns=columns)
        self.entered = entered
        self.weight = fold.layer.weight.index_select(1, columns)

    def enter(self, values: Tensor, *, detached: bool) -> Tensor:
        """See `Entry.enter`."""
        weight, start = self.weight, self.entered
        if detached:
            weight, start = weight.detach(), start.detach()
        if len(values) == len(start):
            return torch.addmm(start, values - self.values, weight.T)
        moves = values.view(len(values) // len(start), *self.values.shape) - self.values
        entered: Tensor = (moves @ weight.T + start).flatten(0, 1)
        return entered

    def pull(self, gradient: Tensor, *, detached: bool = False) -> Tensor:
        """See `Entry.pull`."""
        pulled: Tensor = gradient @ (self.weight.detach() if detached else self.weight)
        return pulled

    def enter_box(self, interval: Interval) -> Box:
        """See `Entry.enter_box`."""
        center, radius = _halves(interval)
        return Box(
            torch.addmm(self.entered, center - self.values, self.weight.T),
            radius @ self.weight.abs().T,
        )

    def pull_box(self, gradient: Box) -> Box:
        """See `Entry.pull_box`."""
        return Box(gradient.center @ self.weight, gradient.radius @ self.weight.abs())


class ScatteredEntry(Entry):
    """Before the whole model: the values are put back where they came from.

    Args:
        model: The model.
        features: The samples ``(N, *S)``.
        columns: Which of the flattened features move.
    """

    def __init__(self, *, model: nn.Module, features: Tensor, columns: Tensor) -> None:
        self.features = features.detach()
        values = self.features.flatten(1).index_select(1, columns)
        super().__init__(net=model, values=values, columns=columns)

    def enter(self, values: Tensor, *, detached: bool) -> Tensor:
        """See `Entry.enter`."""
        del detached  # no weight comes before
        copies = len(values) // len(self.features)
        rest = self.features.flatten(1)
        rest = rest if copies == 1 else rest.repeat(copies, 1)
        return rest.index_copy(1, self.columns, values).view(len(values), *self.features.shape[1:])

    def pull(self, gradient: Tensor, *, detached: bool = False) -> Tensor:
        """See `Entry.pull`."""
        del detached
        return gradient.flatten(1).index_select(1, self.columns)

    def enter_box(self, interval: Interval) -> Box:
        """See `Entry.enter_box`."""
        center, radius = _halves(interval)
        still = torch.zeros_like(self.features).flatten(1)
        wide = still.index_copy(1, self.columns, radius).view_as(self.features)
        return Box(self.enter(center, detached=False), wide)

    def pull_box(self, gradient: Box) -> Box:
        """See `Entry.pull_box`."""
        return Box(self.pull(gradient.center), self.pull(gradient.radius))


def _halves(interval: Interval) -> tuple[Tensor, Tensor]:
    lower, upper = interval
    return (lower + upper) / 2, (upper - lower) / 2
