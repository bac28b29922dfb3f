"""The same or nearly the same image in two splits: content hash, perceptual hash, a closer look."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["correlation", "find_near", "find_same", "hash_content", "hash_looks", "shrink"]

SIDE = 8
MOST_DIFFERENT_BITS = 8
LEAST_CORRELATION = 0.98
CHUNK = 2048
THUMBNAIL = 64


def hash_content(image: Tensor) -> bytes:
    """Hash the pixels, so that copies in another lossless file are the same."""
    sha = hashlib.sha256(repr(tuple(image.shape)).encode())
    sha.update(image.contiguous().numpy().tobytes())
    return sha.digest()


def shrink(image: Tensor, size: tuple[int, int] = (THUMBNAIL, THUMBNAIL)) -> Tensor:
    """The grey image in a small size, ``(H, W)``."""
    grey = image.mean(dim=0, keepdim=True)[None]
    return functional.interpolate(grey, size=size, mode="area")[0, 0]


def hash_looks(image: Tensor) -> Tensor:
    """64 bits, ``(64,)`` booleans: where the shrunk image is brighter than to the left."""
    small = shrink(image, (SIDE, SIDE + 1))
    return (small[:, 1:] > small[:, :-1]).flatten()


def correlation(first: Tensor, second: Tensor) -> float:
    """The correlation of two images' pixels; 0 if one of them is of one colour.

    Example:
        >>> ramp = torch.arange(4.0).reshape(2, 2)
        >>> round(correlation(ramp, 3 * ramp + 1), 4), correlation(ramp, torch.ones(2, 2))
        (1.0, 0.0)
    """
    pair = torch.stack([first.flatten(), second.flatten()]).double()
    pair = pair - pair.mean(dim=1, keepdim=True)
    sizes = pair.norm(dim=1)
    return float(pair[0] @ pair[1] / sizes.prod()) if bool((sizes > 1e-6).all()) else 0.0


def find_same(contents: Sequence[bytes], parts: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of the same image in different parts: an image, and the first in another part."""
    first: dict[bytes, int] = {}
    pairs = []
    for index, content in enumerate(contents):
        before = first.setdefault(content, index)
        if parts[before] != parts[index]:
            pairs.append((index, before))
    return pairs


def find_near(
    looks: Tensor,
    parts: Sequence[str],
    thumbnail: Callable[[int], Tensor],
    advance: Callable[[int], None],
) -> list[tuple[int, int]]:
    """Pairs of nearly the same image in different parts: an image, and one of an earlier part.

    Args:
        looks: Perceptual hashes ``(N, 64)``.
        parts: The part of each image; parts are in order.
        thumbnail: Function that reads the shrunk image of an index again.
        advance: Function that reports how many images are done.
    """
    signs = looks.float() * 2 - 1
    order = list(dict.fromkeys(parts))
    numbers = torch.tensor([order.index(part) for part in parts])
    pairs = []
    for start in range(0, len(signs), CHUNK):
        rows = slice(start, start + CHUNK)
        agree = signs[rows] @ signs.T  # 64 less twice the number of different bits
        near = (agree >= SIDE * SIDE - 2 * MOST_DIFFERENT_BITS) & (
            numbers[rows, None] > numbers[None, :]
        )
        for row in near.any(dim=1).nonzero().flatten().tolist():
            here = thumbnail(start + row)
            candidates = near[row].nonzero().flatten()
            by_agreement = candidates[agree[row, candidates].argsort(descending=True)]
            for other in by_agreement.tolist():
                if correlation(here, thumbnail(other)) >= LEAST_CORRELATION:
                    pairs.append((start + row, other))
                    break
        advance(len(agree))
    return pairs
