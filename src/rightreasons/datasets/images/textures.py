"""Textures drawn by formula: waves and plaids."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["draw_texture"]

DIRECTIONS = 10
PERIOD = 128  # pixels to which frequencies refer


def _wave(phase: NDArray[np.float64], form: int) -> NDArray[np.float64]:
    """A wave of one of four forms: smooth, in steps, in peaks, rising and falling at once."""
    smooth: NDArray[np.float64] = np.cos(phase)
    if form == 0:
        return smooth
    if form == 1:
        return np.sign(smooth)
    if form == 2:
        return 2 * np.abs(smooth) ** 4 - 1
    return phase / np.pi % 2 - 1


def draw_texture(
    number: int, plaid: bool, side: int, stream: np.random.Generator
) -> NDArray[np.uint8]:
    """Draw a bent wave, or a plaid of two waves, in two random colours with noise.

    Ten classes have ten directions; the next ten have these again, with another form of the wave.
    """
    form, number = divmod(number, DIRECTIONS)
    angle = np.pi * (number + stream.normal(0, 0.15)) / DIRECTIONS
    frequency = 2 * np.pi * (10 if number % 2 else 18) / PERIOD * stream.uniform(0.85, 1.15)
    rows, columns = np.mgrid[:side, :side]
    along = columns * np.cos(angle) + rows * np.sin(angle)
    across = rows * np.cos(angle) - columns * np.sin(angle)
    phases = stream.uniform(0, 2 * np.pi, size=3)
    bend = 2.0 * np.sin(across * frequency / 5 + phases[0])
    wave = _wave(frequency * along + bend + phases[1], form)
    if plaid:
        wave = (wave + np.cos(frequency * across + phases[2])) / 2
    share = (0.5 + 0.5 * wave)[..., None]
    colours = stream.uniform(0, 255, size=(2, 3))
    noise = stream.normal(0, 8, size=(side, side, 1))
    mixed = share * colours[0] + (1 - share) * colours[1] + noise
    pixels: NDArray[np.uint8] = np.clip(mixed, 0, 255).astype(np.uint8)
    return pixels
