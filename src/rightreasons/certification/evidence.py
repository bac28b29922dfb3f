"""Evidence for one batch: bounds that prove, and attacks that search for counterexamples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from rightreasons import bounds
from rightreasons.attacks import GradientSize, climb, draw_worst_point, worst_value
from rightreasons.certification.region import Region
from rightreasons.core.model_modes import record_outputs
from rightreasons.core.norms import sample_norm
from rightreasons.probe.masked import MaskedFeatures
from rightreasons.types import Interval, Target

__all__ = [
    "bound_gradient",
    "masked_gradient_bound",
    "num_hidden_units",
    "prove_margin",
    "search_gradient",
    "search_margin",
]

Method = Literal["ibp", "crown"]
ROUNDING = 1e-12
"""Relative error allowed for a norm of a few thousand numbers in double precision."""
STEP_SIZE = 0.25
MOST_CLASSES = 20


def prove_margin(region: Region, rows: Tensor, *, method: Method) -> Tensor:
    r"""Lower bounds of the margin of the predicted class over the box.

    .. math:: \min_{k \ne \hat y} \; \min_{x'} \; f_{\hat y}(x') - f_k(x')

    The smaller of two proofs, both rounded outward: one for the weights in double precision, one
    for the model as it is deployed, with its own rounding. A margin that cannot be bounded is minus
    infinity.

    Args:
        region: The samples and their boxes.
        rows: Indices of samples, or booleans.
        method: How intermediate values are bounded.
    """
    proofs: list[Tensor] = []
    dtypes = torch.float64, region.batch.x.dtype
    for model, dtype in zip((region.double_model, region.model), dtypes, strict=True):
        if proofs and dtype == torch.float64:
            continue
        lower, upper = (end[rows] for end in region.ends(dtype))
        predicted = region.prediction[rows]
        with torch.no_grad():
            margins = bounds.margin_bounds(
                model, lower, upper, predicted, method=method, outward=True
            )
        others = margins.scatter(1, predicted[:, None], torch.inf).amin(dim=1)
        proofs.append(torch.nan_to_num(others.double(), nan=-torch.inf, neginf=-torch.inf))
    return torch.stack(proofs).amin(dim=0)


def bound_gradient(region: Region, target: Target, *, method: Method) -> Interval:
    """Bounds of the target's gradient at the columns over the box, ``(N, M)``."""
    lower, upper = region.ends(torch.float64)
    with torch.no_grad():
        return bounds.input_gradient_bounds(
            region.double_model,
            lower,
            upper,
            region.batch.y,
            target=target,
            method=method,
            outward=True,
            columns=region.columns,
        )


def masked_gradient_bound(region: Region, gradient: Interval) -> Tensor:
    r"""The largest masked gradient that bounds allow, :math:`\lVert m \max(|l|, |u|) \rVert_2`."""
    steepest = torch.maximum(gradient.lower.abs(), gradient.upper.abs())
    weighed = torch.where(region.mask == 0, 0.0, region.mask * steepest)
    size = sample_norm(weighed, "l2") * (1 + ROUNDING)
    return torch.nan_to_num(size, nan=torch.inf, posinf=torch.inf)


def search_margin(
    region: Region, *, num_steps: int, num_restarts: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Search the box for the smallest margin of the predicted class.

    The attack descends the margin from random starts. For each other class it also tries the corner
    of the box that the gradient at the sample points to, which is the worst one of a linear model.
    The point it finds is run through the deployed model, in that model's own precision.

    Returns:
        The points ``(N, M)``, the classes predicted there ``(N,)``, the margins ``(N,)``.
    """
    masked, box = region.probe.masked, region.search_box()
    points, least = worst_value(
        masked,
        box,
        target=Target.MARGIN,
        largest=False,
        num_steps=num_steps,
        step_size=STEP_SIZE,
        num_restarts=num_restarts,
    )
    for corner in _corners(masked, box):
        margin = Target.MARGIN(masked.at(corner).logits, masked.y).detach()
        points = torch.where((margin < least)[:, None], corner, points)
        least = torch.minimum(least, margin)
    with torch.no_grad():
        logits = region.model(region.inputs(points))
    return points, logits.argmax(dim=1), Target.MARGIN(logits, region.prediction)


def search_gradient(region: Region, target: Target, *, num_steps: int, num_restarts: int) -> Tensor:
    """Search the box for the largest masked gradient: its L2 norm in double precision, ``(N,)``."""
    masked = region.double_probe.masked
    size = GradientSize(masked.mask, "l2")
    nominal = size(masked.gradient(target)).detach()
    start = draw_worst_point(masked, region.box, size, target=target, num_samples=num_restarts)
    best = climb(
        masked, region.box, size, start, target=target, num_steps=num_steps, step_size=STEP_SIZE
    )
    return torch.maximum(nominal, size(masked.at(best).gradient(target)).detach())


def num_hidden_units(model: nn.Module, x: Tensor) -> int:
    """Count the outputs of all layers with weights for one sample, the logits included.

    Linear relaxation propagates one row for each of them back to the input.

    Args:
        model: The model, in test mode.
        x: Samples ``(N, *S)``; the first is used.

    Example:
        >>> net = nn.Sequential(nn.Linear(4, 7), nn.ReLU(), nn.Linear(7, 2))
        >>> num_hidden_units(net, torch.rand(1, 4))
        9
    """
    outputs: dict[str, Tensor] = {}
    layers = [name for name, module in model.named_modules() if _has_own_weights(module) and name]
    with torch.no_grad(), record_outputs(model, layers, outputs):
        logits = model(x[:1])
    return sum(output.numel() for output in outputs.values()) if layers else logits.numel()


def _has_own_weights(module: nn.Module) -> bool:
    return next(module.parameters(recurse=False), None) is not None


def _corners(masked: MaskedFeatures, box: Interval) -> Iterator[Tensor]:
    """For each of the likeliest classes the corner where it gains most on the label, (N, M)."""
    start = masked.values.detach().requires_grad_()
    with torch.enable_grad():
        logits = masked.at(start).logits
        label_logit = logits.gather(1, masked.y[:, None])
        likeliest = logits.detach().topk(min(logits.shape[1], MOST_CLASSES + 1), dim=1).indices
        for column in likeliest.T[..., None]:
            lead = (label_logit - logits.gather(1, column)).sum()
            (slope,) = torch.autograd.grad(lead, start, retain_graph=True)
            falling = torch.where(slope < 0, box.upper, masked.values)
            yield torch.where(slope > 0, box.lower, falling).detach()
