"""Integrated gradients of the loss on the way from a sample to a point near it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rightreasons.probe import Probe
from rightreasons.target import Target

__all__ = ["PathAttribution", "path_attribution"]


class PathAttribution(NamedTuple):
    """What each feature adds to the loss ``(N, *S)``, and the loss's rise ``(N,)``."""

    parts: Tensor
    rise: Tensor


def path_attribution(
    probe: Probe, points: Tensor, *, num_segments: int, create_graph: bool
) -> PathAttribution:
    r"""Integrated gradients from the samples to ``points``, by the trapezoid rule.

    .. math:: (x' - x) \odot \int_0^1 \nabla_x \ell(x + \alpha (x' - x)) \, d\alpha

    The parts add up to the rise :math:`\ell(x') - \ell(x)`, as far as the segments resolve the
    way. All points of the way go through the model in one stacked pass, as at test time.

    Args:
        probe: At the samples.
        points: ``(N, *S)``; may carry a graph.
        num_segments: Of the trapezoid rule.
        create_graph: Whether the result must reach ``points`` and the weights.
    """
    start = probe.features.detach()
    way = points - start
    shares = torch.linspace(0, 1, num_segments + 1, dtype=way.dtype, device=way.device)
    places = start + shares.view(-1, *(1,) * way.ndim) * way

    def slope_and_loss(moved: Probe) -> Tensor:
        loss = Target.LOSS(moved.logits, moved.batch.y)
        return torch.cat([moved.gradient(Target.LOSS).flatten(1), loss[:, None]], dim=1)

    measured = probe.each_at(places, slope_and_loss, create_graph=create_graph)
    slopes, losses = measured[..., :-1], measured[..., -1]
    mean = (slopes[1:] + slopes[:-1]).sum(dim=0) / (2 * num_segments)
    return PathAttribution(way * mean.view_as(way), losses[-1] - losses[0])
