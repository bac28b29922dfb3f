import pytest
import torch

from rightreasons.datasets.dataset import Card, InMemory
from rightreasons.datasets.images.manifest import read_manifest
from rightreasons.datasets.images.splits import Reading, check_size, image_splits
from rightreasons.datasets.images.stream import ImageStream
from rightreasons.errors import DatasetCorruptError, InvalidSettingError


def load(root, *, problems=(), **settings):
    manifest, _ = read_manifest(root)
    reading = Reading(workers=0, **settings)
    return image_splits(
        manifest,
        problems,
        size=None,
        channels=3,
        mask_polarity="irrelevant",
        card=Card(name="pets"),
        reading=reading,
    )


def test_what_fits_is_held_in_memory(pets):
    num_bytes = 12 * (3 + 1) * 8 * 10 * 4
    assert isinstance(load(pets, memory_limit=num_bytes).train, InMemory)
    assert isinstance(load(pets, memory_limit=num_bytes - 1).train, ImageStream)
    assert isinstance(load(pets, memory_limit=0, in_memory=True).train, InMemory)
    assert isinstance(load(pets, in_memory=False).train, ImageStream)


def test_the_card_is_filled(pets):
    card = load(pets).card
    assert (card.name, card.classes, card.groups) == (
        "pets",
        ("cat", "dog"),
        ("indoors", "outdoors"),
    )
    assert (card.shape, card.train_group_counts) == ((3, 8, 10), (6, 0))


def test_problems_are_raised_with_those_of_the_files(pets):
    (pets / "images/2.png").unlink()
    words = (
        "as its data.csv says, but got 2 problems:\n  a first one\n  row 4, images/2.png: no such"
    )
    with pytest.raises(DatasetCorruptError, match=words):
        load(pets, problems=["a first one"])


def test_a_threshold_makes_masks_hard(pets, save_image):
    save_image(pets / "masks/1.png", torch.arange(80).reshape(8, 10) * 3)
    manifest, _ = read_manifest(pets)
    settings = {"size": None, "channels": 3, "mask_polarity": "irrelevant", "card": Card()}
    for in_memory in (True, False):
        reading = Reading(workers=0, in_memory=in_memory)
        hard = image_splits(manifest, [], reading=reading, mask_threshold=0.5, **settings)
        soft = image_splits(manifest, [], reading=reading, **settings)
        masks = [data.train.take(torch.tensor([1])).mask for data in (hard, soft)]
        assert torch.equal(masks[0], (masks[1] > 0.5).float())
        assert len(masks[1].unique()) > 2
        assert hard.digest() != soft.digest()


def test_sizes():
    assert check_size(None) is None
    assert check_size(5) == (5, 5)
    assert check_size([4, 6]) == (4, 6)
    with pytest.raises(
        InvalidSettingError, match="a number of pixels or height and width, but got '"
    ):
        check_size("5")
    with pytest.raises(InvalidSettingError, match="Expected `size` to be a whole number from 1"):
        check_size((0, 4))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"workers": -1}, "Expected `workers` to be a whole number from 0"),
        ({"in_memory": 1.5}, "Expected `in_memory` to be 'auto', True or False, but got 1.5"),
        ({"memory_limit": -1}, "Expected `memory_limit` to be a whole number from 0"),
        ({"verify": 1}, "Expected `verify` to be True or False"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        Reading(**settings)


def test_workers():
    assert Reading(workers=3).num_workers == 3
    assert 1 <= Reading().num_workers <= 4
