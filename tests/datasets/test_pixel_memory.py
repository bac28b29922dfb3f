import pytest
import torch

from rightreasons.datasets import Card
from rightreasons.datasets.images.pixels import PixelMemory
from rightreasons.errors import InvalidBatchError

PIXELS = torch.arange(3 * 2 * 2 * 2, dtype=torch.uint8).view(3, 2, 2, 2)
CARD = Card(classes=("a", "b"), shape=(2, 2, 2))


def test_batches_are_scaled_and_the_memory_is_left_alone():
    data = PixelMemory(PIXELS, torch.tensor([0, 1, 0]), CARD)
    batch = data.take(torch.tensor([2, 0]))
    assert torch.equal(batch.x, PIXELS[[2, 0]].float() / 255)
    assert (batch.y.tolist(), batch.index.tolist()) == ([0, 0], [2, 0])
    assert batch.mask is None and batch.group is None
    assert data.pixels.dtype == torch.uint8 and data.pixels is PIXELS
    assert (len(data), data.has_masks, data.groups) == (3, False, None)


def test_the_digest_sees_pixels_labels_and_shape():
    y = torch.tensor([0, 1, 0])
    digests = {
        PixelMemory(PIXELS, y, CARD).digest(),
        PixelMemory(PIXELS + 1, y, CARD).digest(),
        PixelMemory(PIXELS, 1 - y, CARD).digest(),
        PixelMemory(PIXELS[:2], y[:2], CARD).digest(),
    }
    assert len(digests) == 4


def test_parts_that_do_not_fit_are_refused():
    for pixels, y in ((PIXELS, torch.tensor([0])), (PIXELS[:0], torch.tensor([]))):
        with pytest.raises(InvalidBatchError, match="Expected at least one image of shape"):
            PixelMemory(pixels, y, CARD)
