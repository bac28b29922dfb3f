"""The model as a function of its masked features alone, everything else held fixed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from rightreasons.bounds import Box, gradient_box, output_box
from rightreasons.double_backward import explained, out_of_place, twice_differentiable
from rightreasons.entry import Entry
from rightreasons.errors import InvalidSettingError
from rightreasons.mode import as_at_test_time
from rightreasons.target import Target
from rightreasons.types import Interval

__all__ = ["Inside", "Point"]


class Inside:
    r"""The features that masks touch: their values, their gradient, and the model as they move.

    Of the ``D`` features of a sample the ``M`` that the mask of *any* sample of the batch touches
    are laid out as columns, ``(N, M)``; the others never move. Where the first layer is affine
    they are folded into a constant once, so that moving, differentiating and bounding cost
    products with ``M`` columns and not ``D``; elsewhere the values are put back into the
    input. Both give the same numbers within rounding.

    Args:
        entry: Where the values go in, and the net behind.
        model: The model, for its mode.
        mask: At the columns, ``(N, M)``.
        y: Labels ``(N,)``.
        nominal: The gradient of a target at the entry, with its graph if that is wanted.
        max_rows: The most rows a stacked pass may have; None is no ceiling.
    """

    def __init__(
        self,
        *,
        entry: Entry,
        model: nn.Module,
        mask: Tensor,
        y: Tensor,
        nominal: Callable[[Target], Tensor],
        max_rows: int | None,
    ) -> None:
        self.mask = mask
        self.y = y
        self.max_rows = max_rows
        self._entry = entry
        self._model = model
        self._nominal = nominal
        self._gradients: dict[Target, Tensor] = {}

    @property
    def values(self) -> Tensor:
        """The features themselves, ``(N, M)``."""
        return self._entry.values

    @property
    def columns(self) -> Tensor:
        """Which of the flattened features they are, ``(M,)``."""
        return self._entry.columns

    def gradient(self, target: Target | str = Target.LOSS) -> Tensor:
        """The gradient of ``target`` at the samples, ``(N, M)``; kept once taken."""
        target = Target(target)
        if target not in self._gradients:
            self._gradients[target] = self._entry.pull(self._nominal(target))
        return self._gradients[target]

    def box(
        self, epsilon: float | None, valid_range: tuple[float, float] | None = None
    ) -> Interval:
        r"""Where the masked features may move: :math:`x \pm \epsilon m`, within the valid range.

        Args:
            epsilon: In input units. None is every valid value, for which a range is needed; where
                the mask is soft, the feature moves by its share of the way.
            valid_range: The smallest and largest value of a feature; None is no limit. A feature
                outside it may stay where it is.
        """
        values, mask = self.values.detach(), self.mask
        if epsilon is None:
            low, high = _needed(valid_range)
            ends = [torch.full_like(values, end) for end in (low, high)]
            lower, upper = (torch.lerp(values, end, mask) for end in ends)
            return Interval(torch.minimum(lower, values), torch.maximum(upper, values))
        reach = epsilon * mask
        lower, upper = values - reach, values + reach
        if valid_range is not None:
            lower = torch.minimum(lower.clamp(min=valid_range[0]), values)
            upper = torch.maximum(upper.clamp(max=valid_range[1]), values)
        return Interval(lower, upper)

    def at(self, values: Tensor, *, reach_weights: bool = False) -> Point:
        """The model at other values of the masked features, as at test time.

        Args:
            values: ``(N, M)``, or ``(K * N, M)``, copy after copy; may carry a graph.
            reach_weights: Whether what is read off must reach the weights.
        """
        y = self.y if len(values) == len(self.y) else self.y.repeat(len(values) // len(self.y))
        with self._test_time(), torch.enable_grad():
            entered = self._entry.enter(values, detached=not reach_weights)
            if not entered.requires_grad:
                entered.requires_grad_()
            logits = self._entry.net(entered)
        return Point(self._entry, entered, logits, y, detached=not reach_weights)

    def output_box(self, interval: Interval) -> Box:
        """Bounds of the logits over values in ``interval``."""
        with self._test_time():
            return output_box(self._entry.net, self._entry.enter_box(interval))

    def gradient_box(self, interval: Interval, target: Target) -> tuple[Box, Box]:
        """Bounds of the logits, and of the gradient ``(N, M)``, over values in ``interval``."""
        with self._test_time():
            entered = self._entry.enter_box(interval)
            logits, gradient = gradient_box(self._entry.net, entered, self.y, target=target)
            return logits, self._entry.pull_box(gradient)

    @contextmanager
    def _test_time(self) -> Iterator[None]:
        model = self._model
        with explained(), as_at_test_time(model), twice_differentiable(model), out_of_place(model):
            yield


class Point:
    """The model at some values of the masked features.

    Args:
        entry: Where they went in.
        entered: What came of them there.
        logits: What the net gave.
        y: The labels.
        detached: Whether the weights' graph is left out.
    """

    def __init__(
        self, entry: Entry, entered: Tensor, logits: Tensor, y: Tensor, *, detached: bool
    ) -> None:
        self.logits = logits
        self.y = y
        self._entry = entry
        self._entered = entered
        self._detached = detached

    def gradient(self, target: Target, *, create_graph: bool = False) -> Tensor:
        """The gradient of ``target`` for each row, ``(rows, M)``."""
        with explained(), torch.enable_grad():
            value = target(self.logits, self.y).sum()
            (gradient,) = torch.autograd.grad(value, self._entered, create_graph=create_graph)
        return self._entry.pull(gradient, detached=self._detached)


def _needed(valid_range: tuple[float, float] | None) -> tuple[float, float]:
    if valid_range is None:
        raise InvalidSettingError(
            "Expected a `valid_range` for features that may take every valid value, but got None. "
            "Give the smallest and largest value, such as (0.0, 1.0), or an `epsilon`."
        )
    return valid_range
