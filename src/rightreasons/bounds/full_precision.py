"""Bounds are computed in the precision of the box, whatever autocast would prefer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

__all__ = ["full_precision"]


@contextmanager
def full_precision(like: Tensor) -> Iterator[None]:
    """Switch autocast off for a while: in half precision, bounds would not be bounds.

    Args:
        like: A tensor on the device in question.
    """
    device = like.device.type
    if not torch.is_autocast_enabled(device):
        yield
        return
    with torch.autocast(device, enabled=False):
        yield
