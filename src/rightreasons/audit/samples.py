"""The audited images: read once, with small copies, properties and the model's answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rightreasons.audit.cause import ask
from rightreasons.audit.properties import image_properties
from rightreasons.audit.regions import shrink_images
from rightreasons.datasets.dataset import Dataset

__all__ = ["Samples", "read_samples"]

CHUNK = 100
MOST_RECIPIENTS = 200
SURE = 0.7

Advance = Callable[[int], None]


@dataclass(frozen=True)
class Samples:
    """The audited images: small copies, properties and the model's answers.

    Args:
        data: The data set.
        rows: Row of each audited image in the data set, ``(N,)``.
        y: Labels ``(N,)``.
        small: Small copies, ``(N, C, h, w)``.
        properties: Properties of whole images by name, ``(N,)`` each.
        answers: Probabilities ``(N, K)`` that the model gives; None without a model.
        search: Places of the images for the search, ascending.
        cause: Places of the others, on which candidates are planted.
    """

    data: Dataset
    rows: Tensor
    y: Tensor
    small: Tensor
    properties: dict[str, Tensor]
    answers: Tensor | None
    search: Tensor
    cause: Tensor

    def take(self, places: Tensor) -> Tensor:
        """The images at places among the audited ones, ``(n, C, H, W)``."""
        return self.data.take(self.rows[places]).x

    def recipients(self) -> Tensor:
        """Places to plant on: not searched, and the model is sure and right about them."""
        if self.answers is None:
            return self.cause[:0]
        confidence, predicted = self.answers[self.cause].max(dim=1)
        right = predicted == self.y[self.cause]
        chosen = self.cause[right & (confidence >= SURE)]
        if len(chosen) < MOST_RECIPIENTS / 5:
            chosen = self.cause[right]
        return chosen[torch.linspace(0, len(chosen) - 1, min(len(chosen), MOST_RECIPIENTS)).long()]


def read_samples(
    data: Dataset,
    model: nn.Module | None,
    rows: Tensor,
    halves: tuple[Tensor, Tensor],
    advance: Advance,
) -> Samples:
    """Read the audited images once: small copies, properties and answers are kept."""
    small, answers = [], []
    properties: dict[str, list[Tensor]] = {}
    for part in torch.split(rows, CHUNK):
        x = data.take(part).x
        small.append(shrink_images(x))
        for name, values in image_properties(x).items():
            properties.setdefault(name, []).append(values)
        if model is not None:
            answers.append(ask(model, x))
        advance(len(part))
    return Samples(
        data=data,
        rows=rows,
        y=data.labels[rows].cpu(),
        small=torch.cat(small),
        properties={name: torch.cat(values) for name, values in properties.items()},
        answers=torch.cat(answers) if answers else None,
        search=halves[0],
        cause=halves[1],
    )
