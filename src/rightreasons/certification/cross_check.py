"""Proofs checked against the model itself while they are made: a wrong one is never written."""

from __future__ import annotations

import torch
from torch import Tensor

from rightreasons import bounds
from rightreasons.certification.region import Region
from rightreasons.errors import CertificateError
from rightreasons.types import Interval, Target

__all__ = [
    "refuse_contradiction",
    "refuse_non_finite",
    "refuse_outside",
    "refuse_smaller_than_found",
    "refuse_wrong_outputs",
    "refuse_wrong_points",
]

TOLERANCE = 1e-6
"""Relative to a sample's largest value, in double precision."""


def refuse_non_finite(logits: Tensor) -> None:
    """Raise if the model gives NaN or infinity, of which nothing can be proved."""
    bad = ~torch.isfinite(logits).all(dim=1)
    if bool(bad.any()):
        raise CertificateError(
            f"Expected finite logits, but got NaN or infinity for {int(bad.sum())} of {len(bad)} "
            "samples. Check the model's weights."
        )


def refuse_wrong_points(region: Region, target: Target) -> None:
    """Raise unless bounds of a single point are the gradient that autograd takes there.

    Where an activation has a kink at the sample, they need only hold it.
    """
    gradient = region.exact_probe.masked.gradient(target).detach()
    x = region.batch.x.double()
    slack = TOLERANCE * _scale(gradient)
    for outward in (False, True):
        with torch.no_grad():
            point = bounds.input_gradient_bounds(
                region.exact,
                x,
                x,
                region.batch.y,
                target=target,
                outward=outward,
                columns=region.columns,
            )
        far = torch.maximum((point.lower - gradient).abs(), (point.upper - gradient).abs())
        held = (point.lower - slack <= gradient) & (gradient <= point.upper + slack)
        right = held if outward else far <= slack
        if bool(right.all()):
            return
    raise CertificateError(
        f"Expected bounds of a single point to be the gradient of the {target.value} there, but "
        f"they are off by {float(far.max()):.3g}. The rule of a layer is wrong: if it is your own, "
        "check its backward rule."
    )


def refuse_wrong_outputs(region: Region) -> None:
    """Raise unless the bounds of the logits hold the logits at the samples."""
    lower, upper = region.ends(torch.float64)
    with torch.no_grad():
        held = bounds.output_bounds(region.exact, lower, upper, outward=True)
    refuse_outside("the logits", region.exact_probe.logits.detach(), held)


def refuse_outside(what: str, values: Tensor, held: Interval) -> None:
    """Raise if a value seen at a sample is outside bounds of its box; NaN bounds nothing."""
    slack = 1e-9 * _scale(values)
    outside = (values < held.lower - slack) | (values > held.upper + slack)
    if bool(outside.any()):
        raise CertificateError(
            f"Expected bounds that hold {what} at the samples, but {int(outside.sum())} of "
            f"{outside.numel()} values are outside. The rule of a layer is wrong: if it is your "
            "own, check it."
        )


def refuse_smaller_than_found(what: str, proved: Tensor, found: Tensor) -> None:
    """Raise if an attack found more than was proved to be there."""
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
