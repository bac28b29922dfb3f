"""How alike two attribution maps are: cosine, correlation and structure."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["cosine_similarity", "pearson_correlation", "structural_similarity"]

WINDOW, SIGMA = 7, 1.5
NOTHING = 1e-12  # of a map's size: what rounding leaves of a constant map once it is centred


def cosine_similarity(first: Tensor, second: Tensor) -> Tensor:
    r"""The cosine of the angle between maps, ``(N, *S) -> (N,)``, in double precision.

    1 if both are zero, 0 if one is.

    Example:
        >>> one, other = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]])
        >>> cosine_similarity(one, other)
        tensor([0.7071], dtype=torch.float64)
    """
    one, other = first.double().flatten(1), second.double().flatten(1)
    return _cosine(one, other, torch.zeros(len(one), device=one.device, dtype=one.dtype))


def pearson_correlation(first: Tensor, second: Tensor) -> Tensor:
    """The correlation of maps over their features, ``(N, *S) -> (N,)``, in double precision.

    1 if both are constant, 0 if one is.
    """
    one, other = first.double().flatten(1), second.double().flatten(1)
    sizes = torch.maximum(one.norm(dim=1), other.norm(dim=1))
    return _cosine(one - one.mean(1, keepdim=True), other - other.mean(1, keepdim=True), sizes)


def structural_similarity(first: Tensor, second: Tensor) -> Tensor:
    r"""SSIM of maps ``(N, 1, H, W) -> (N,)``, in double precision.

    .. math:: \frac{(2 \mu_1 \mu_2 + c_1)(2 \sigma_{12} + c_2)}
        {(\mu_1^2 + \mu_2^2 + c_1)(\sigma_1^2 + \sigma_2^2 + c_2)}
        \quad\text{with}\quad c_1 = (0.01 r)^2, \; c_2 = (0.03 r)^2

    averaged over pixels; means and variances are those under a Gaussian window of 7 x 7 pixels
    and deviation 1.5, zero beyond the edges, and :math:`r` is the range of the first map.

    Differs from the paper's code: the range is each map's own, not that of the batch.

    References:
        wang2004image
    """
    one, other = first.double().squeeze(1), second.double().squeeze(1)
    height, width = one.shape[1:]
    rows, columns = _band(height, one), _band(width, one)
    stacked = torch.stack([one, other, one * one, other * other, one * other])
    mean, other_mean, square, other_square, product = rows @ stacked @ columns.T
    spread = one.flatten(1).amax(dim=1) - one.flatten(1).amin(dim=1)
    small, large = ((share * spread).square()[:, None, None] for share in (0.01, 0.03))
    covariance = product - mean * other_mean
    variances = (square - mean**2).clamp(min=0) + (other_square - other_mean**2).clamp(min=0)
    above = (2 * mean * other_mean + small) * (2 * covariance + large)
    below = (mean**2 + other_mean**2 + small) * (variances + large)
    is_empty = below == 0
    ratio = torch.where(is_empty, 1, above / torch.where(is_empty, 1, below))
    return ratio.mean(dim=(1, 2))


def _cosine(one: Tensor, other: Tensor, sizes: Tensor) -> Tensor:
    lengths = [
        torch.where(v.norm(dim=1) <= NOTHING * sizes, 0, v.norm(dim=1)) for v in (one, other)
    ]
    product = lengths[0] * lengths[1]
    both_nothing = (lengths[0] == 0) & (lengths[1] == 0)
    cosine = torch.linalg.vecdot(one, other) / torch.where(product == 0, 1, product)
    return torch.where(product == 0, both_nothing.to(cosine), cosine)


def _band(size: int, like: Tensor) -> Tensor:
    """The window as a matrix that smooths one axis."""
    offsets = torch.arange(WINDOW, dtype=like.dtype, device=like.device) - WINDOW // 2
    whole = torch.exp(-offsets.square() / (2 * SIGMA**2)).sum()
    places = torch.arange(size, dtype=like.dtype, device=like.device)
    distance = places[:, None] - places
    weights = torch.exp(-distance.square() / (2 * SIGMA**2)) / whole
    return torch.where(distance.abs() <= WINDOW // 2, weights, 0)
