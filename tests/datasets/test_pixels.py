import numpy as np
import pytest
import torch

from rightreasons.datasets import Augmented, Card
from rightreasons.datasets.images.pixels import (
    MaskedPixels,
    PixelMemory,
    PixelPart,
    masked_pixel_splits,
    pixel_splits,
    split_training,
)
from rightreasons.errors import InvalidBatchError, InvalidSettingError

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


SMALL_CARD = Card(name="small", shape=(1, 2, 2), classes=("0", "1"))
SETTINGS = {"seed": 0, "subset": None, "validation": 4, "flip": False, "crop": 0}


def part(count):
    pixels = np.arange(4 * count, dtype=np.uint8).reshape(count, 1, 2, 2)
    return PixelPart(np.arange(count) % 2, lambda indices: pixels[indices])


def small_splits(**settings):
    return pixel_splits(lambda: (part(20), part(6)), SMALL_CARD, **{**SETTINGS, **settings})


def test_every_image_is_in_one_part_and_test_images_keep_their_order():
    splits = small_splits()
    assert (len(splits.train), len(splits.val), len(splits.test)) == (16, 4, 6)
    together = torch.cat([splits.train.pixels, splits.val.pixels])[:, 0, 0, 0]
    assert sorted(together.tolist()) == list(range(0, 80, 4))
    assert splits.test.pixels[:, 0, 0, 0].tolist() == list(range(0, 24, 4))
    assert torch.bincount(splits.val.labels).tolist() == [2, 2]
    assert small_splits(validation=0).val is None
    assert isinstance(small_splits(crop=1).train, Augmented)


def test_the_draw_depends_on_the_name_and_the_seed_and_subsets_are_nested():
    y = torch.arange(40) % 2
    settings = {"name": "one", "seed": 0, "validation": 10}
    val, train = split_training(y, subset=20, **settings)
    other, smaller = split_training(y, subset=8, **settings)
    assert torch.equal(val, other) and {*smaller.tolist()} < {*train.tolist()}
    assert not {*val.tolist()} & {*train.tolist()}
    for change in ({"name": "two"}, {"seed": 1}):
        assert not torch.equal(val, split_training(y, subset=None, **{**settings, **change})[0])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"validation": 20}, "Expected `validation` to be a whole number from 0 to 19"),
        ({"subset": 17}, "Expected `subset` to be a whole number from 1 to 16"),
        ({"flip": 1}, "Expected `flip` to be True or False"),
        ({"crop": -1}, "Expected `crop` to be a whole number from 0"),
        ({"seed": -1}, "Expected `seed` to be a whole number from 0"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        small_splits(**settings)


def masked_parts(size=4):
    pixels = torch.randint(256, (size, 3, 2, 5), dtype=torch.uint8)
    return pixels, torch.rand(size, 1, 2, 5) < 0.5, torch.arange(size) % 2, torch.arange(size) % 3


def test_batches_are_scaled_and_annotated():
    pixels, mask, y, group = masked_parts()
    data = MaskedPixels(pixels, mask, y, group, Card())
    batch = data.take(torch.tensor([3, 1]))
    torch.testing.assert_close(batch.x, pixels[[3, 1]].float() / 255)
    assert torch.equal(batch.mask, mask[[3, 1]].float())
    assert batch.annotated.all() and data.has_masks
    assert (batch.y.tolist(), batch.group.tolist()) == ([1, 1], [0, 1])
    assert (len(data), data.card.shape) == (4, (3, 2, 5))
    assert torch.equal(data.labels, y) and torch.equal(data.groups, group)


@pytest.mark.parametrize("number", range(4))
def test_the_digest_changes_with_every_part(number):
    same, other = masked_parts(), None
    changed = [part.clone() for part in same]
    changed[number].view(-1)[0] = ~changed[number].view(-1)[0] if number < 2 else 7
    other = MaskedPixels(*changed, Card()).digest()
    assert MaskedPixels(*same, Card()).digest() != other


def test_splits_share_a_card_with_counts():
    splits = masked_pixel_splits(
        {"train": masked_parts(7), "test": masked_parts(2)},
        Card(classes=("a", "b"), groups=("x", "y", "z")),
    )
    assert splits.val is None
    assert splits.card.train_group_counts == (3, 2, 2)
    assert splits.test.card == splits.card


def test_parts_that_do_not_fit():
    pixels, mask, y, group = masked_parts()
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
