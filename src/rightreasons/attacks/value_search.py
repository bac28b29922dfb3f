"""The worst prediction within a box: climb the loss, or descend the margin, by signed steps."""

from __future__ import annotations

import torch
from torch import Tensor

from rightreasons.attacks.gradient_search import drawn_points
from rightreasons.inside import Inside
from rightreasons.target import Target
from rightreasons.types import Interval

__all__ = ["worst_value"]


def worst_value(
    inside: Inside,
    interval: Interval,
    *,
    target: Target = Target.LOSS,
    largest: bool = True,
    num_steps: int = 10,
    step_size: float = 0.25,
    num_restarts: int = 1,
) -> tuple[Tensor, Tensor]:
    r"""The point of a box where ``target`` is largest, as far as signed steps find it.

    .. math:: v \leftarrow \Pi\left(v \pm \alpha (u - l) \, \mathrm{sign}\, \nabla_v t\right)

    Projected gradient ascent from random starts (Madry et al. 2018), inside the masks. Every point
    on the way counts, the ends of the box that the first slope points to as well.

    Args:
        inside: The model inside the masks.
        interval: The box.
        target: What grows.
        largest: Whether to look for the largest value, or the smallest.
        num_steps: Steps from each start.
        step_size: :math:`\alpha`, as a share of the box's width on each feature; it shrinks
            linearly to a tenth.
        num_restarts: How many starts.

    Returns:
        The points ``(N, M)`` and the values of the target there ``(N,)``.
    """
    lower, upper = interval
    sign = 1.0 if largest else -1.0
    best = inside.values.detach()
    found = sign * target(inside.at(best).logits, inside.y).detach()
    for start in drawn_points(interval, num_restarts):
        point = start
        for step in range(num_steps + 1):
            point = point.detach().requires_grad_()
            with torch.enable_grad():
                values = sign * target(inside.at(point).logits, inside.y)
                (slope,) = torch.autograd.grad(values.sum(), point)
            better = values.detach() > found
            best = torch.where(better[:, None], point.detach(), best)
            found = torch.where(better, values.detach(), found)
            share = step_size * (1 - 0.9 * step / max(1, num_steps)) if step else 1.0
            stride = share * (upper - lower)
            point = torch.addcmul(point.detach(), stride, slope.sign()).clamp(lower, upper)
    return best, sign * found
