import numpy as np
import pytest
import torch
from tests.datasets.miniature import salient_files, save

from rightreasons.datasets import salient_imagenet
from rightreasons.errors import DatasetCorruptError, InvalidSettingError

CLASSES = (306, 142, 270)


@pytest.fixture
def salient_dir(tmp_path):
    salient_files(tmp_path)
    return tmp_path


def load(root, **settings):
    return salient_imagenet(root, **{"classes": CLASSES, "size": 16, **settings})


def test_spurious_images_train_and_core_images_test(salient_dir):
    data = load(salient_dir)
    assert data.card.classes == ("rhinoceros beetle", "dowitcher", "white wolf")
    assert data.card.train_group_counts == (0, 23)
    assert (len(data.train), len(data.val), len(data.test)) == (23, 4, 9 + 18)
    assert (data.train.groups == 1).all()
    assert torch.bincount(data.test.groups).tolist() == [18, 9]
    assert torch.bincount(data.test.labels).tolist() == [9, 9, 9]


@pytest.mark.parametrize(("part", "counts"), [("spurious", [0, 9]), ("core", [18])])
def test_one_of_the_two_test_parts(salient_dir, part, counts):
    data = load(salient_dir, test_part=part)
    assert torch.bincount(data.test.groups).tolist() == counts
    assert data.train.digest() == load(salient_dir).train.digest()


def test_masks_are_spurious_maps_or_what_is_not_core(salient_dir):
    batch = load(salient_dir).test.batch
    spurious = batch.group == 1
    left, lower = torch.zeros(16, 16), torch.zeros(16, 16)
    left[:, :8] = 1
    lower[8:] = 1
    assert (batch.mask[spurious] - left).abs().max() < 0.05
    assert (batch.mask[~spurious] - lower).abs().max() < 0.05
    assert batch.annotated.all()


def test_the_middle_of_the_photograph_is_seen(salient_dir):
    image = np.zeros((32, 64, 3))
    image[:, 16:48] = 200  # the middle square is bright
    for path in (salient_dir / "ILSVRC2012").rglob("*.JPEG"):
        save(path, image, quality=95)
    x = load(salient_dir, size=14).train.batch.x
    assert x.shape[1:] == (3, 14, 14)
    assert (x[:, :, 2:-2, 2:-2] - 200 / 255).abs().max() < 0.05


def test_no_image_is_in_two_parts(salient_dir):
    data = load(salient_dir)
    images = [
        x.numpy().tobytes() for part in (data.train, data.val, data.test) for x in part.batch.x
    ]
    assert len(images) == len(set(images)) == 54
    assert load(salient_dir, seed=1).train.digest() != data.train.digest()
    assert load(salient_dir, validation_share=0).val is None


def test_missing_images_and_maps(salient_dir):
    for kind in ("ILSVRC2012", "salient_imagenet_dataset"):
        path = next((salient_dir / kind).rglob("n02174001_3.JPEG"))
        path.unlink()
        with pytest.raises(
            DatasetCorruptError, match=f"{kind}.*n02174001_3.JPEG to be an image, but"
        ):
            load(salient_dir)
        save(path, np.zeros((16, 16)))


def test_no_core_images(salient_dir):
    for table in salient_dir.rglob("image_names_map.csv"):
        rows = [",".join(line.split(",")[:2]) for line in table.read_text().splitlines()]
        table.write_text("\n".join(rows))
    with pytest.raises(InvalidSettingError, match="`test_part` to have images, but .* for 'core'"):
        load(salient_dir, test_part="core")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"classes": (306,)}, r"to be two or more different ImageNet numbers, but got \[306\]"),
        ({"classes": (306, 306)}, "two or more different ImageNet numbers"),
        ({"classes": (306, 1000)}, "Expected `classes` to be a whole number from 0 to 999"),
        ({"size": 0}, "Expected `size` to be a whole number from 1"),
        ({"test_part": "all"}, "Expected `test_part` to be 'both' or 'spurious' or 'core'"),
        ({"test_share": 0.0}, "to leave samples to train and to test on"),
        ({"workers": -1}, "Expected `workers` to be a whole number from 0"),
        ({"seed": -1}, "Expected `seed` to be a whole number from 0"),
    ],
)
def test_bad_settings(salient_dir, settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        load(salient_dir, **settings)
