import numpy as np
import pytest
import torch

from rightreasons.datasets import Augmented, Card
from rightreasons.datasets.images.pixels import PixelPart, pixel_splits, split_training
from rightreasons.errors import InvalidSettingError

CARD = Card(name="small", shape=(1, 2, 2), classes=("0", "1"))
SETTINGS = {"seed": 0, "subset": None, "validation": 4, "flip": False, "crop": 0}


def part(count):
    pixels = np.arange(4 * count, dtype=np.uint8).reshape(count, 1, 2, 2)
    return PixelPart(np.arange(count) % 2, lambda places: pixels[places])


def made(**settings):
    return pixel_splits(lambda: (part(20), part(6)), CARD, **{**SETTINGS, **settings})


def test_every_image_is_in_one_part_and_test_images_keep_their_order():
    splits = made()
    assert (len(splits.train), len(splits.val), len(splits.test)) == (16, 4, 6)
    together = torch.cat([splits.train.pixels, splits.val.pixels])[:, 0, 0, 0]
    assert sorted(together.tolist()) == list(range(0, 80, 4))
    assert splits.test.pixels[:, 0, 0, 0].tolist() == list(range(0, 24, 4))
    assert torch.bincount(splits.val.labels).tolist() == [2, 2]
    assert made(validation=0).val is None
    assert isinstance(made(crop=1).train, Augmented)


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
        made(**settings)
