"""What bounds prove of samples and their boxes."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rightreasons import bounds
from rightreasons.certification.region import Region
from rightreasons.norm import sample_norm
from rightreasons.target import Target
from rightreasons.types import Interval

__all__ = ["gradient_size_bound", "proved_gradient", "proved_margin"]

Method = Literal["ibp", "crown"]

ROUNDING = 1e-12
"""Relative slack of a norm of a few thousand numbers in double precision."""


def proved_margin(region: Region, rows: Tensor, *, method: Method) -> Tensor:
    r"""By how much the predicted class is ahead everywhere in the box, at least.

    .. math:: \min_{k \ne \hat y} \; \min_{x'} \; f_{\hat y}(x') - f_k(x')

    The smaller of two proofs, both rounded outward: for the weights in double precision, and for
    the model as it is deployed, with the rounding of its own arithmetic. What cannot be bounded is
    minus infinity.

    Args:
        region: The samples.
        rows: Which of them, positions or booleans.
        method: How intermediate values are bounded.
    """
    proofs: list[Tensor] = []
    for model, dtype in ((region.exact, torch.float64), (region.model, region.batch.x.dtype)):
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


def proved_gradient(region: Region, target: Target, *, method: Method) -> Interval:
    """Bounds of the target's gradient at the columns everywhere in the box, ``(N, M)``."""
    lower, upper = region.ends(torch.float64)
    with torch.no_grad():
        return bounds.input_gradient_bounds(
            region.exact,
            lower,
            upper,
            region.batch.y,
            target=target,
            method=method,
            outward=True,
            columns=region.columns,
        )


def gradient_size_bound(region: Region, gradient: Interval) -> Tensor:
    r"""The largest masked gradient that bounds allow, :math:`\lVert m \max(|l|, |u|) \rVert_2`."""
    steepest = torch.maximum(gradient.lower.abs(), gradient.upper.abs())
    weighed = torch.where(region.mask == 0, 0.0, region.mask * steepest)
    size = sample_norm(weighed, "l2") * (1 + ROUNDING)
    return torch.nan_to_num(size, nan=torch.inf, posinf=torch.inf)
