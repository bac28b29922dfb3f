"""Checks of proofs against the model itself, so that no wrong proof is ever written."""

from __future__ import annotations

import torch
from torch import Tensor

from rightreasons import bounds
from rightreasons.certification.region import Region
from rightreasons.errors import CertificateError
from rightreasons.types import Interval, Target

__all__ = [
    "refuse_contradiction",
    "refuse_exceeded_bound",
    "refuse_non_finite",
    "refuse_outside",
    "refuse_wrong_outputs",
    "refuse_wrong_points",
]

TOLERANCE = 1e-6
"""Tolerance relative to a sample's largest value, in double precision."""


def refuse_non_finite(logits: Tensor) -> None:
    """Raise if the logits are NaN or infinite: then nothing can be proved."""
    bad = ~torch.isfinite(logits).all(dim=1)
    if bool(bad.any()):
        raise CertificateError(
            f"Expected finite logits, but got NaN or infinity for {int(bad.sum())} of {len(bad)} "
            "samples. Check the model's weights."
        )


def refuse_wrong_points(region: Region, target: Target, gradient: Tensor) -> None:
    """Raise unless bounds of a single point are the gradient that autograd takes there.

    Where an activation has a kink at the sample, the bounds need only contain it.

    Args:
        region: The samples.
        target: The number of the prediction that is differentiated.
        gradient: What autograd gives at the samples, ``(N, M)``.
    """
    x = region.batch.x.double()
    slack = TOLERANCE * _scale(gradient)
    for outward in (False, True):
        with torch.no_grad():
            point = bounds.input_gradient_bounds(
                region.double_model,
                x,
                x,
                region.batch.y,
                target=target,
                outward=outward,
                columns=region.columns,
            )
        distance = torch.maximum((point.lower - gradient).abs(), (point.upper - gradient).abs())
        contained = (point.lower - slack <= gradient) & (gradient <= point.upper + slack)
        right = contained if outward else distance <= slack
        if bool(right.all()):
            return
    raise CertificateError(
        f"Expected bounds of a single point to be the gradient of the {target.value} there, but "
        f"they are off by {float(distance.max()):.3g}. The rule of a layer is wrong: if it is your "
        "own, check its backward rule."
    )


def refuse_wrong_outputs(region: Region) -> None:
    """Raise unless the bounds of the logits contain the logits at the samples."""
    lower, upper = region.ends(torch.float64)
    with torch.no_grad():
        interval = bounds.output_bounds(region.double_model, lower, upper, outward=True)
    refuse_outside("the logits", region.double_probe.logits.detach(), interval)


def refuse_outside(what: str, values: Tensor, interval: Interval) -> None:
    """Raise if a value at a sample is outside the bounds of its box; NaN bounds pass."""
    slack = 1e-9 * _scale(values)
    outside = (values < interval.lower - slack) | (values > interval.upper + slack)
    if bool(outside.any()):
        raise CertificateError(
            f"Expected bounds that hold {what} at the samples, but {int(outside.sum())} of "
            f"{outside.numel()} values are outside. The rule of a layer is wrong: if it is your "
            "own, check it."
        )


def refuse_exceeded_bound(what: str, proved: Tensor, found: Tensor) -> None:
    """Raise if an attack found a larger value than was proved."""
    beyond = found > proved + 1e-9 * proved.abs() + 1e-12
    if bool(beyond.any()):
        first = int(beyond.nonzero()[0])
        raise CertificateError(
            f"Expected an attack to find no larger {what} than was proved, but it found "
            f"{float(found[first]):.6g} where {float(proved[first]):.6g} was proved. The rule of a "
            "layer is wrong: if it is your own, check it."
        )


def refuse_contradiction(verified: Tensor, refuted: Tensor) -> None:
    """Raise if an attack changed a prediction that was proved not to change."""
    both = verified & refuted
    if bool(both.any()):
        raise CertificateError(
            f"Expected predictions that were proved not to change to stay, but an attack changed "
            f"{int(both.sum())} of {int(verified.sum())}. The rule of a layer is wrong: if it is "
            "your own, check it."
        )


def _scale(values: Tensor) -> Tensor:
    """The largest magnitude of each row, as a column, never zero."""
    padded = torch.cat([values.abs(), values.new_full((len(values), 1), 1e-30)], dim=1)
    return padded.amax(dim=1, keepdim=True)
