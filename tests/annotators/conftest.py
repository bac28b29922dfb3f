"""What tests of annotators share: bright squares on grey images, which masks mark."""

import pytest
import torch

import rightreasons as rr
from rightreasons.datasets import InMemory

SIDE = 8


def squares(size=24, *, num_annotated=None, side=SIDE, channels=1, seed=0):
    """Images with a bright 3 x 3 square somewhere; the first few are annotated, two classes."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(size, channels, side, side, generator=generator) / 2
    mask = torch.zeros(size, 1, side, side)
    corners = torch.randint(0, side - 2, (size, 2), generator=generator).tolist()
    for place, (row, column) in enumerate(corners):
        x[place, :, row : row + 3, column : column + 3] = 1
        mask[place, :, row : row + 3, column : column + 3] = 1
    annotated = torch.arange(size) < (size if num_annotated is None else num_annotated)
    mask[~annotated] = 0
    y = torch.arange(size) % 2
    return InMemory(rr.Batch(x=x, y=y, mask=mask, annotated=annotated))


@pytest.fixture
def make_squares():
    return squares


@pytest.fixture(scope="session")
def fitted():
    """An annotator that learned the squares from ten of 24, and the data."""
    data = squares(num_annotated=10)
    annotator = rr.annotators.PseudoAnnotator(width=4, depth=1, num_updates=80, lr=0.02, shift=1)
    return annotator.fit(data, progress=False, accelerator="cpu"), data
