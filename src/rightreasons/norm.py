"""The size of one sample's tensor: the norms every penalty shares."""

import math
from typing import Literal

import torch
from torch import Tensor

from rightreasons.errors import InvalidSettingError

__all__ = ["Norm", "checked_norm", "sample_norm"]

Norm = Literal["l1", "l2", "squared_l2"] | float

NAMES = ("l1", "l2", "squared_l2")


def checked_norm(norm: Norm) -> Norm:
    """Give back a norm, or raise if it is none."""
    if isinstance(norm, str) and norm in NAMES:
        return norm
    if isinstance(norm, int | float) and not isinstance(norm, bool) and 1 <= norm < math.inf:
        return norm
    raise InvalidSettingError(
        f"Expected `norm` to be one of {NAMES} or a number p of at least 1, but got {norm!r}."
    )


def sample_norm(values: Tensor, norm: Norm) -> Tensor:
    r"""Each sample's norm: ``(N, *S) -> (N,)``.

    ``"l1"``, ``"l2"``, ``"squared_l2"`` or a number p for :math:`(\sum |v|^p)^{1/p}`. The norms
    are sums over features, not means: their unit is that of ``values`` (squared for
    ``"squared_l2"``), whatever the number of features outside the mask. At zero the derivative of
    each is zero, never NaN.

    Example:
        >>> sample_norm(torch.tensor([[3.0, -4.0]]), "l2")
        tensor([5.])
    """
    rows = values.flatten(1)
    if norm == "l1":
        return rows.abs().sum(dim=1)
    if norm == "squared_l2":
        squares: Tensor = torch.linalg.vecdot(rows, rows, dim=1)  # a pass less than square, sum
        return squares
    size: Tensor = torch.linalg.vector_norm(rows, ord=2.0 if norm == "l2" else float(norm), dim=1)
    return size
