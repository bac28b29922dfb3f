"""Pictures: a sample with its mask outlined, alone or with an attribution over it; texts too."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

__all__ = [
    "ShownWord",
    "draw_overlay",
    "draw_sample",
    "file_address",
    "png_address",
    "shade_words",
    "share_in_mask",
]

SIDE = 140
OUTLINE = np.array([0.0, 0.78, 1.0])
CASING = np.array([0.03, 0.08, 0.12])
HEAT = np.array([[0.80, 0.10, 0.35], [0.98, 0.45, 0.10], [1.00, 0.92, 0.40]])
STRONGEST = 0.995
LUMINANCE = np.array([0.299, 0.587, 0.114])

NUM_SHADES = 5
LONGEST_WORD = 40

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ShownWord:
    """A word of a text on a page.

    Args:
        word: The word, or a piece of one.
        is_masked: Whether the model must not look at it, or it belongs to a finding.
        heat: Shade of its background, from 0 for none to 5.
        joins: Whether it goes on with the word before it.
    """

    word: str
    is_masked: bool = False
    heat: int = 0
    joins: bool = False


def shade_words(
    tokens: Sequence[str],
    attribution: NDArray[np.floating] | None,
    mask: NDArray[np.floating] | None,
) -> list[ShownWord]:
    """The words of a text, shaded by the magnitude of their attribution.

    The strongest word has the darkest shade. Masked words are marked.

    Args:
        tokens: The tokens; empty ones are padding.
        attribution: A number for each token, or a vector ``(T, E)``; None shades nothing.
        mask: A number for each token; None marks nothing.

    Example:
        >>> [one.heat for one in shade_words(["a", "b", ""], np.array([1.0, -5.0, 0.0]), None)]
        [1, 5]
    """
    sizes = np.zeros(len(tokens)) if attribution is None else _magnitude(attribution)
    sizes = np.sqrt((sizes.reshape(len(tokens), -1) ** 2).sum(axis=1))
    most = max((float(size) for size, token in zip(sizes, tokens, strict=True) if token), default=0)
    begins = any(token[:1] in ("Ġ", "▁") and len(token) > 1 for token in tokens)
    shown: list[ShownWord] = []
    for place, token in enumerate(tokens):
        if not token:
            continue
        goes_on = len(token) > 2 and token.startswith("##")
        goes_on = goes_on or (begins and token[0] not in ("Ġ", "▁"))
        word = token.removeprefix("##") if goes_on else token
        word = word.lstrip("Ġ▁") or word
        shown.append(
            ShownWord(
                word if len(word) <= LONGEST_WORD else f"{word[:LONGEST_WORD]}…",
                is_masked=mask is not None and bool(mask[place] > 0),
                heat=round(NUM_SHADES * float(sizes[place]) / most) if most else 0,
                joins=goes_on and bool(shown),
            )
        )
    return shown


def draw_sample(
    x: NDArray[np.floating], mask: NDArray[np.floating] | None, valid_range: tuple[float, float]
) -> str:
    """Draw the sample with its mask outlined; gives the data URL of a PNG.

    Args:
        x: Image ``(C, H, W)``.
        mask: Mask that broadcasts to ``x``, 1 where the model must not look; None outlines
            nothing.
        valid_range: The values that are black and white.
    """
    pixels = _resize(_colours(x, valid_range))
    return png_address(_outline(pixels, _area(mask, x.shape)))


def draw_overlay(
    x: NDArray[np.floating],
    attribution: NDArray[np.floating],
    mask: NDArray[np.floating] | None,
    valid_range: tuple[float, float],
) -> str:
    """Draw the sample in dim grey, the attribution over it in colour, and the mask outlined.

    Args:
        x: Image ``(C, H, W)``.
        attribution: Attribution ``(C, H, W)``.
        mask: Mask that broadcasts to ``x``; None outlines nothing.
        valid_range: The values that are black and white.
    """
    grey = _resize(_colours(x, valid_range)) @ LUMINANCE
    base = np.repeat(0.10 + 0.55 * grey[..., None], 3, axis=2)
    strength = _strength(_resize(_magnitude(attribution).sum(axis=0)))
    colours = np.stack(
        [np.interp(strength, np.linspace(0, 1, len(HEAT)), HEAT[:, c]) for c in range(3)], axis=2
    )
    alpha = 0.92 * strength[..., None] ** 0.7
    return png_address(_outline((1 - alpha) * base + alpha * colours, _area(mask, x.shape)))


def share_in_mask(
    attribution: NDArray[np.floating], mask: NDArray[np.floating] | None
) -> float | None:
    """The fraction of the attribution's magnitude inside the mask; None if either is empty."""
    size = _magnitude(attribution)
    if mask is None or not mask.any() or not size.any():
        return None
    return float((np.broadcast_to(mask, size.shape) * size).sum() / size.sum())


def png_address(pixels: Floats) -> str:
    """Encode pixels ``(H, W, 3)`` in [0, 1] as a data URL of a PNG with at most 256 colours."""
    picture = Image.fromarray((np.clip(pixels, 0, 1) * 255).round().astype(np.uint8))
    file = io.BytesIO()
    picture.quantize(256).save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _magnitude(attribution: NDArray[np.floating]) -> Floats:
    return np.abs(np.nan_to_num(attribution.astype(np.float64)))


def _strength(magnitude: Floats) -> Floats:
    """Scale to 1 at the strongest half per cent of the pixels, 0 where there is nothing."""
    most = float(np.quantile(magnitude, STRONGEST)) or float(magnitude.max())
    return np.clip(magnitude / (most or 1.0), 0.0, 1.0)


def _colours(x: NDArray[np.floating], valid_range: tuple[float, float]) -> Floats:
    """``(C, H, W)`` -> ``(H, W, 3)`` in [0, 1]; other than three channels become their mean."""
    values = np.nan_to_num(x.astype(np.float64))
    low, high = valid_range
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        low, high = float(values.min()), float(values.max())
    values = (values - low) / (high - low if high > low else 1.0)
    if len(values) != 3:
        values = np.repeat(values.mean(axis=0, keepdims=True), 3, axis=0)
    return np.clip(values, 0.0, 1.0).transpose(1, 2, 0)


def _area(mask: NDArray[np.floating] | None, shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
    """Pixels where the mask is at least half of its maximum, in any channel; enlarged."""
    if mask is None or not mask.any():
        return None
    most = np.broadcast_to(mask, shape).astype(np.float64).max(axis=0)
    return np.asarray(_resize(most) >= 0.5 * most.max())


def _resize(pixels: Floats) -> Floats:
    """Enlarge small pictures by whole numbers; average large ones down to `SIDE`."""
    height, width = pixels.shape[:2]
    longest = max(height, width)
    if longest <= SIDE:
        times = SIDE // longest
        return pixels.repeat(times, axis=0).repeat(times, axis=1)
    size = (max(1, width * SIDE // longest), max(1, height * SIDE // longest))
    layers = pixels.reshape(height, width, -1).astype(np.float32)
    small = [
        np.asarray(Image.fromarray(layers[..., c]).resize(size, Image.Resampling.BOX))
        for c in range(layers.shape[2])
    ]
    return np.stack(small, axis=2).astype(np.float64).reshape(size[1], size[0], *pixels.shape[2:])


def _outline(pixels: Floats, area: NDArray[np.bool_] | None) -> Floats:
    if area is None:
        return pixels
    inner = _shrink(_shrink(area))
    result = pixels.copy()
    result[_grow(area) & ~area] = CASING
    result[area & ~inner] = OUTLINE
    result[inner & ~_shrink(inner)] = CASING
    return result


def _shrink(area: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Remove the pixels at the border of an area, also at the edge of the picture."""
    return np.asarray(np.logical_and.reduce(_neighbours(area)))


def _grow(area: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.asarray(np.logical_or.reduce(_neighbours(area)))


def _neighbours(area: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
    padded = np.pad(area, 1)
    height, width = area.shape
    return [padded[r : r + height, c : c + width] for r in range(3) for c in range(3)]


def file_address(path: Path) -> str:
    """The data URL of a PNG file."""
    return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
