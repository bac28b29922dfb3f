"""RandMask: cover a random window of each image, MaskTune's baseline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import override

from rightreasons.core.checks import check_choice, check_integer, positive_float
from rightreasons.core.rng import random_stream
from rightreasons.datasets import MaskBits, masked_input
from rightreasons.datasets.wrappers import FILLS, Fill, pack_masks
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives import Objective
from rightreasons.strategies.masktune import fine_tune, refuse_other_than_images
from rightreasons.strategies.strategy import Stages, Strategy

__all__ = ["RandomMask", "window_masks"]

CHUNK = 4096
SMALLEST = 2


def window_masks(
    num_images: int,
    *,
    size: tuple[int, int],
    sides: tuple[int, int],
    stream: np.random.Generator,
) -> Tensor:
    """Draw a square window at a random position in each image.

    Args:
        num_images: Number of images.
        size: Height and width of the images.
        sides: Smallest and largest side of the windows; all sides are equally likely.
        stream: Random number generator.

    Returns:
        ``(N, 1, H, W)`` booleans, True in the window.

    Example:
        >>> stream = np.random.default_rng(0)
        >>> window_masks(3, size=(4, 5), sides=(2, 2), stream=stream).sum(dim=(1, 2, 3))
        tensor([4, 4, 4])
    """
    side = stream.integers(sides[0], sides[1] + 1, size=num_images)
    inside = []
    for length in size:
        start = np.floor(stream.random(num_images) * (length - side + 1))[:, None]
        line = np.arange(length)[None]
        inside.append((line >= start) & (line < start + side[:, None]))
    rows, columns = (torch.from_numpy(axis) for axis in inside)
    return (rows[:, :, None] & columns[:, None, :])[:, None]


@final
class RandomMask(Strategy):
    """RandMask: train, cover a random window of each image, train on for an epoch.

    Like `MaskTune`, but with windows at random positions. Beside MaskTune it shows that covering
    pixels alone does not help.

    Args:
        window: Side of the window in pixels; None draws one for each image, from 2 to half the
            image's smaller side, as in the paper's appendix.
        fill: What covers the window: ``"zero"``, ``"mean"`` or ``"blur"``, see `masked_input`.
        tune_epochs: Epochs of fine-tuning.
        tune_lr: Learning rate of fine-tuning, if not the last one.

    References:
        asgari2022masktune
    """

    def __init__(
        self,
        *,
        window: int | None = None,
        fill: Fill = "zero",
        tune_epochs: int = 1,
        tune_lr: float | None = None,
    ) -> None:
        self.window = None if window is None else check_integer("window", window)
        self.fill = check_choice("fill", fill, FILLS)
        self.tune_epochs = check_integer("tune_epochs", tune_epochs)
        self.tune_lr = None if tune_lr is None else positive_float("tune_lr", tune_lr)

    @override
    def run(self, model: nn.Module, objective: Objective, stages: Stages) -> None:
        train = stages.data.train
        refuse_other_than_images(train, "RandomMask")
        height, width = train.card.shape[1:]
        sides = self._sides(min(height, width))
        first = stages.fit("train", model, objective, train)

        def chunks() -> Iterator[NDArray[np.uint8]]:
            stream = random_stream(stages.seed, "random_mask")
            for start in range(0, len(train), CHUNK):
                count = min(CHUNK, len(train) - start)
                yield pack_masks(
                    window_masks(count, size=(height, width), sides=sides, stream=stream)
                )

        bits = MaskBits(stages.compute_once("masks", len(train), chunks), size=(height, width))
        if first.last:
            model.load_state_dict(first.last)
        covered = masked_input(train, bits, fill=self.fill)
        settings: dict[str, Any] = {"epochs": self.tune_epochs, "lr": self.tune_lr}
        fine_tune(stages, model, objective, covered, first, **settings)

    def _sides(self, side: int) -> tuple[int, int]:
        if self.window is None:
            return SMALLEST, max(side // 2, SMALLEST)
        if self.window > side:
            raise InvalidSettingError(
                f"Expected `window` to fit into images of side {side}, but got {self.window}."
            )
        return self.window, self.window
