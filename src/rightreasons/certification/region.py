"""Samples with masks and the boxes in which their masked features may move."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rightreasons.probe.probe import Probe
from rightreasons.types import Batch, Interval

__all__ = ["Region", "region_of"]


@dataclass(frozen=True, eq=False)
class Region:
    """A batch, the model as it is deployed and in double precision, and a box for each sample.

    Args:
        model: As it is deployed, in test mode.
        exact: The same in double precision.
        batch: Samples whose masks are not empty, in the model's precision.
        prediction: What the model predicts for them, ``(N,)``.
        probe: Of the model at the batch, with the predictions as labels.
        exact_probe: Of ``exact``, with the labels as labels.
        columns: Which of the flattened features any mask touches, ``(M,)``.
        box: Where they may move, ``(N, M)``, in double precision.
    """

    model: nn.Module
    exact: nn.Module
    batch: Batch
    prediction: Tensor
    probe: Probe
    exact_probe: Probe
    columns: Tensor
    box: Interval

    @property
    def mask(self) -> Tensor:
        """At the columns, ``(N, M)``, in double precision."""
        return self.exact_probe.masked.mask

    def own_box(self) -> Interval:
        """The box in the model's precision, at most as large, for a search."""
        lower, upper = (end.to(self.batch.x.dtype) for end in self.box)
        values = self.probe.masked.values.detach()
        return Interval(torch.minimum(lower, values), torch.maximum(upper, values))

    def inputs(self, values: Tensor) -> Tensor:
        """The samples with other values at the columns, ``(N, *S)``, as precise as ``values``."""
        x = self.batch.x.to(values.dtype)
        return x.flatten(1).index_copy(1, self.columns, values).reshape(x.shape)

    def ends(self, dtype: torch.dtype) -> Interval:
        """The box around the whole samples, ``(N, *S)``, rounded outward to a precision."""
        lower, upper = (end.to(dtype) for end in self.box)
        below, above = torch.full_like(lower, -torch.inf), torch.full_like(upper, torch.inf)
        moves = self.mask != 0
        lower = torch.where(moves, torch.nextafter(lower, below), lower)
        upper = torch.where(moves, torch.nextafter(upper, above), upper)
        return Interval(self.inputs(lower), self.inputs(upper))


def region_of(
    model: nn.Module,
    exact: nn.Module,
    batch: Batch,
    prediction: Tensor,
    *,
    epsilon: float | None,
    valid_range: tuple[float, float],
) -> Region:
    """Lay out the boxes of samples whose masks are not empty.

    Args:
        model: As it is deployed.
        exact: The same in double precision.
        batch: The samples, in the model's precision.
        prediction: What the model predicts for them.
        epsilon: See `certify`.
        valid_range: See `certify`.
    """
    probe = Probe.at_test_time(
        model, batch.replace(y=prediction), needs_gradient="inside", create_graph=False
    )
    exact_probe = Probe.at_test_time(
        exact, batch.to(torch.float64), needs_gradient="inside", create_graph=False
    )
    return Region(
        model=model,
        exact=exact,
        batch=batch,
        prediction=prediction,
        probe=probe,
        exact_probe=exact_probe,
        columns=probe.masked.columns,
        box=exact_probe.masked.box(epsilon, valid_range),
    )
