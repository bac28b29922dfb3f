"""Input gradients at the samples and near them, taken once for all terms that compare them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from rightreasons.objectives.straight_pass import straight_pass
from rightreasons.probe import Probe
from rightreasons.target import Target

__all__ = [
    "PERTURBATIONS",
    "GradientPair",
    "Nearby",
    "gradient_pair",
    "nearby_gradient",
    "source_gradient",
]

PERTURBATIONS = ("uniform", "gaussian", "sign")


class GradientPair(NamedTuple):
    """Gradients at the samples ``(N, *S)`` and at K points near each ``(K, N, *S)``."""

    source: Tensor
    nearby: Tensor


@dataclass(frozen=True)
class Nearby:
    """Which points near the samples, and which gradients: terms with equal ones share a pass.

    Args:
        perturbation: One of `PERTURBATIONS`.
        epsilon: In input units: the largest step (uniform), the deviation (gaussian), or the
            step up or down on every feature, as the source gradient points (sign).
        num_samples: How many points for each sample.
        target: What is differentiated.
        detach_source: Hold the gradients at the samples constant.
    """

    perturbation: str
    epsilon: float
    num_samples: int
    target: Target
    detach_source: bool

    def shifts(self, source: Tensor) -> Tensor:
        """The steps to those points, ``(K, N, *S)``; drawn from the global random state."""
        shape = (self.num_samples, *source.shape)
        if self.perturbation == "sign":
            return self.epsilon * source.detach().sign().expand(shape)
        drawn = torch.empty(shape, dtype=source.dtype, device=source.device)
        if self.perturbation == "gaussian":
            return self.epsilon * drawn.normal_()
        return drawn.uniform_(-self.epsilon, self.epsilon)


def gradient_pair(probe: Probe, nearby: Nearby) -> GradientPair:
    """Gradients at the samples and near them; one pass for all who ask with equal settings.

    Both are as at test time where layers in train mode would mix samples or draw: the samples then
    cost one more pass.
    """

    def both() -> GradientPair:
        source = source_gradient(probe, nearby.target, detached=nearby.detach_source)
        points = probe.features.detach() + nearby.shifts(source)
        return GradientPair(source, nearby_gradient(probe, points, nearby.target))

    return probe.once(nearby, both)


def source_gradient(probe: Probe, target: Target, *, detached: bool) -> Tensor:
    """The gradient at the samples, to be compared with others of `Probe.at`; taken once."""

    def taken() -> Tensor:
        if probe.depends_on_mode:
            create_graph = probe.create_graph and not detached
            return probe.at(probe.features.detach(), create_graph=create_graph).gradient(target)
        if not detached or not (probe.features.requires_grad and probe.logits.requires_grad):
            return probe.gradient(target)
        with torch.enable_grad():
            value = target(probe.logits, probe.batch.y).sum()
        (gradient,) = torch.autograd.grad(value, probe.features, retain_graph=True)
        return gradient

    return probe.once(("source", target, detached), taken)


def nearby_gradient(probe: Probe, points: Tensor, target: Target) -> Tensor:
    """The gradient at K points for each sample, ``(K, N, *S)``, with its graph if one is wanted."""
    rows = points.flatten(0, 1)
    with straight_pass() if probe.create_graph else nullcontext():
        if probe.max_rows is None or len(rows) <= probe.max_rows:
            return probe.at(rows).gradient(target).view(points.shape)
        return probe.each_at(
            points, lambda moved: moved.gradient(target), create_graph=probe.create_graph
        )
