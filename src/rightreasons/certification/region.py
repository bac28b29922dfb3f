"""Samples with masks, and the boxes in which their masked features may move."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rightreasons.probe.probe import Probe
from rightreasons.types import Batch, Interval, Target

__all__ = ["Region", "region_of"]


@dataclass(frozen=True, eq=False)
class Region:
    """A batch, the model as it is deployed and in double precision, and a box for each sample.

    Args:
        model: The model as it is deployed, in test mode.
        double_model: The same model in double precision.
        batch: Samples whose masks are not empty, in the model's precision.
        prediction: The classes that the model predicts for them, ``(N,)``.
        probe: Probe of the model at the batch, with the predictions as labels.
        double_probe: Probe of ``double_model`` at the batch, with the true labels.
        columns: Indices of the flattened features that any mask touches, ``(M,)``.
        box: The ends between which they may move, ``(N, M)``, in double precision.
    """

    model: nn.Module
    double_model: nn.Module
    batch: Batch
    prediction: Tensor
    probe: Probe
    double_probe: Probe
    columns: Tensor
    box: Interval

    @property
    def mask(self) -> Tensor:
        """The mask at the columns, ``(N, M)``, in double precision."""
        return self.double_probe.masked.mask

    def search_box(self) -> Interval:
        """The box for an attack: in the model's precision, and nowhere larger."""
        lower, upper = (end.to(self.batch.x.dtype) for end in self.box)
        values = self.probe.masked.values.detach()
        return Interval(torch.minimum(lower, values), torch.maximum(upper, values))

    def gradient(self, target: Target) -> Tensor:
        """The target's gradient at the samples, ``(N, M)``, in double precision.

        Every column has its gradient, also where a sample's own mask is 0. The probe's own gradient
        may be 0 there.
        """
        masked = self.double_probe.masked
        return masked.at(masked.values).gradient(target).detach()

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
    double_model: nn.Module,
    batch: Batch,
    prediction: Tensor,
    *,
    epsilon: float | None,
    valid_range: tuple[float, float] | None,
) -> Region:
    """Compute the boxes of samples whose masks are not empty.

    Args:
        model: The model as it is deployed.
        double_model: The same model in double precision.
        batch: The samples, in the model's precision.
        prediction: The classes that the model predicts for them.
        epsilon: How far masked features may move; None is the full range.
        valid_range: Smallest and largest value of a feature; None is no limit.
    """
    probe = Probe.at_test_time(
        model, batch.replace(y=prediction), needs_gradient="inside", create_graph=False
    )
    double_probe = Probe.at_test_time(
        double_model, batch.to(torch.float64), needs_gradient="inside", create_graph=False
    )
    return Region(
        model=model,
        double_model=double_model,
        batch=batch,
        prediction=prediction,
        probe=probe,
        double_probe=double_probe,
        columns=probe.masked.columns,
        box=double_probe.masked.box(epsilon, valid_range),
    )
