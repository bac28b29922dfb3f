"""How far floating point arithmetic may stray, so that bounds can be rounded outward.

The bounds promise to hold for what a machine computes, not only for real numbers: the model's own
sums and products are rounded, and so are those of the bounds. A sum of ``n`` products that is
evaluated in any order, with or without fused operations, errs by at most :math:`(n + 1) u` times
the sum of the magnitudes, where ``u`` is half of `torch.finfo(dtype).eps`. Reduced precision
behind a float32 interface (TF32, Winograd convolutions) is not covered: switch it off.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["FUNCTION_ERROR", "precision", "smallest", "sum_error"]

FUNCTION_ERROR = 16
"""Relative error of a transcendental function such as ``tanh``, in units of ``eps``."""

_SPARE = 1.05  # second-order terms of the error of sums of up to a hundred thousand summands


def precision(like: Tensor) -> float:
    """The distance from 1 to the next larger number of the tensor's type."""
    return torch.finfo(like.dtype).eps


def smallest(like: Tensor) -> float:
    """More than all underflows of a layer together, and less than anything that matters."""
    return torch.finfo(like.dtype).tiny * 2.0**20


def sum_error(num_terms: int, like: Tensor) -> float:
    """The relative error of a sum twice: once in the model and once in the bound.

    Example:
        >>> sum_error(0, torch.zeros(1)) < sum_error(784, torch.zeros(1)) < 1.1e-4
        True
    """
    return _SPARE * (num_terms + 4) * precision(like)
