import pytest
import torch

from rightreasons.datasets import Card
from rightreasons.datasets.images.pixels import MaskedPixels, masked_pixel_splits
from rightreasons.errors import InvalidBatchError


def parts(size=4):
    pixels = torch.randint(256, (size, 3, 2, 5), dtype=torch.uint8)
    return pixels, torch.rand(size, 1, 2, 5) < 0.5, torch.arange(size) % 2, torch.arange(size) % 3


def test_batches_are_scaled_and_annotated():
    pixels, mask, y, group = parts()
    data = MaskedPixels(pixels, mask, y, group, Card())
    batch = data.take(torch.tensor([3, 1]))
    torch.testing.assert_close(batch.x, pixels[[3, 1]].float() / 255)
    assert torch.equal(batch.mask, mask[[3, 1]].float())
    assert batch.annotated.all() and data.has_masks
    assert (batch.y.tolist(), batch.group.tolist()) == ([1, 1], [0, 1])
    assert (len(data), data.card.shape) == (4, (3, 2, 5))
    assert torch.equal(data.labels, y) and torch.equal(data.groups, group)


@pytest.mark.parametrize("place", range(4))
def test_the_digest_changes_with_every_part(place):
    same, other = parts(), None
    changed = [part.clone() for part in same]
    changed[place].view(-1)[0] = ~changed[place].view(-1)[0] if place < 2 else 7
    other = MaskedPixels(*changed, Card()).digest()
    assert MaskedPixels(*same, Card()).digest() != other


def test_splits_share_a_card_with_counts():
    splits = masked_pixel_splits(
        {"train": parts(7), "test": parts(2)}, Card(classes=("a", "b"), groups=("x", "y", "z"))
    )
    assert splits.val is None
    assert splits.card.train_group_counts == (3, 2, 2)
    assert splits.test.card == splits.card


def test_parts_that_do_not_fit():
    pixels, mask, y, group = parts()
    words = "Expected at least one image of 8 bits"
    for wrong in (
        (pixels[:0], mask[:0], y[:0], group[:0]),
        (pixels, mask[:, 0], y, group),
        (pixels.float(), mask, y, group),
        (pixels, mask.float(), y, group),
        (pixels, mask, y[:3], group),
    ):
        with pytest.raises(InvalidBatchError, match=words):
            MaskedPixels(*wrong, Card())
