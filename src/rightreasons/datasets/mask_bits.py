"""Masks of many images, a bit for each pixel."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rightreasons.errors import InvalidBatchError

__all__ = ["MaskBits", "packed"]

LEVELS = 255


class MaskBits:
    """One mask an image, kept as bits; soft ones as a byte a pixel, in steps of 1/255.

    Args:
        rows: ``(N, B)`` bytes, as `packed` gives them; an array in memory, or mapped from a file.
        size: Height and width.
        soft: Whether values between 0 and 1 are kept.

    Example:
        >>> mask = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]]]])
        >>> bits = MaskBits(packed(mask), size=(2, 2))
        >>> bits.rows.nbytes, bits.at(torch.tensor([0]))[0, 0]
        (1, tensor([[1., 0.],
                [0., 1.]]))
    """

    def __init__(
        self, rows: NDArray[np.uint8], *, size: tuple[int, int], soft: bool = False
    ) -> None:
        num_pixels = size[0] * size[1]
        width = num_pixels if soft else -(-num_pixels // 8)
        if rows.ndim != 2 or rows.shape[1] != width or rows.dtype != np.uint8:
            raise InvalidBatchError(
                f"Expected `rows` of {width} bytes for masks of {size[0]}x{size[1]} pixels, but "
                f"got {rows.dtype} {rows.shape}."
            )
        self.rows = rows
        self.size = size
        self.soft = soft

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, places: Tensor) -> Tensor:
        """The masks of some images, ``(n, 1, H, W)`` in [0, 1]."""
        some = np.ascontiguousarray(self.rows[places.cpu().numpy()])
        if self.soft:
            values = torch.from_numpy(some).float() / LEVELS
        else:
            num_pixels = self.size[0] * self.size[1]
            values = torch.from_numpy(np.unpackbits(some, axis=1, count=num_pixels)).float()
        return values.reshape(-1, 1, *self.size)


def packed(mask: Tensor, *, soft: bool = False) -> NDArray[np.uint8]:
    """The bytes of masks ``(n, 1, H, W)`` in [0, 1]; bits say where they are not 0."""
    flat = mask.detach().cpu().flatten(1)
    if soft:
        return (flat * LEVELS).round().to(torch.uint8).numpy()
    return np.packbits((flat != 0).numpy(), axis=1)
