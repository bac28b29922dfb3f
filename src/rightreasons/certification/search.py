"""What attacks find in the boxes: the least margin, and the largest masked gradient."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from rightreasons.attacks import GradientSize, climbed, worst_drawn, worst_value
from rightreasons.certification.region import Region
from rightreasons.inside import Inside
from rightreasons.target import Target
from rightreasons.types import Interval

__all__ = ["found_gradient", "found_margin"]

STEP_SIZE = 0.25
MOST_CLASSES = 20


def found_margin(
    region: Region, *, num_steps: int, num_restarts: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The point with the least margin of the predicted class, for the model as it is deployed.

    Steps down the margin from random starts, and for each other class the corner of the box that
    the slope at the sample points to, which is the worst one of a linear model. The point is shown
    to the model itself, whole and in its own precision.

    Returns:
        The points ``(N, M)``, the classes predicted there ``(N,)``, the margins ``(N,)``.
    """
    inside, box = region.probe.inside, region.own_box()
    points, least = worst_value(
        inside,
        box,
        target=Target.MARGIN,
        largest=False,
        num_steps=num_steps,
        step_size=STEP_SIZE,
        num_restarts=num_restarts,
    )
    for corner in _corners(inside, box):
        margin = Target.MARGIN(inside.at(corner).logits, inside.y).detach()
        points = torch.where((margin < least)[:, None], corner, points)
        least = torch.minimum(least, margin)
    with torch.no_grad():
        logits = region.model(region.inputs(points))
    return points, logits.argmax(dim=1), Target.MARGIN(logits, region.prediction)


def found_gradient(region: Region, target: Target, *, num_steps: int, num_restarts: int) -> Tensor:
    """The largest L2 norm of the masked gradient met, in double precision, ``(N,)``."""
    inside = region.exact_probe.inside
    size = GradientSize(inside.mask, "l2")
    nominal = size(inside.gradient(target)).detach()
    start = worst_drawn(inside, region.box, size, target=target, num_samples=num_restarts)
    best = climbed(
        inside, region.box, size, start, target=target, num_steps=num_steps, step_size=STEP_SIZE
    )
    return torch.maximum(nominal, size(inside.at(best).gradient(target)).detach())


def _corners(inside: Inside, box: Interval) -> Iterator[Tensor]:
    """For each of the likeliest classes the corner to which it gains most on the label, (N, M)."""
    start = inside.values.detach().requires_grad_()
    with torch.enable_grad():
        logits = inside.at(start).logits
        own = logits.gather(1, inside.y[:, None])
        likeliest = logits.detach().topk(min(logits.shape[1], MOST_CLASSES + 1), dim=1).indices
        for column in likeliest.T[..., None]:
            lead = (own - logits.gather(1, column)).sum()
            (slope,) = torch.autograd.grad(lead, start, retain_graph=True)
            falling = torch.where(slope < 0, box.upper, inside.values)
            yield torch.where(slope > 0, box.lower, falling).detach()
