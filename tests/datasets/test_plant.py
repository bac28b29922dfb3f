import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from tests.datasets.miniature import plant_files

from rightreasons.datasets import plant
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError


@pytest.fixture
def plant_dir(tmp_path):
    plant_files(tmp_path, folds=(1, 2))
    return tmp_path


def names(root, part, fold=2):
    return (root / "rgb_dataset_splits" / f"{part}_{fold}.txt").read_text().split()


def test_labels_are_told_by_the_leaf(plant_dir):
    test = plant(plant_dir, size=10).test
    leaves = [int(name.split("_")[1][1:]) for name in names(plant_dir, "test")]
    assert test.labels.tolist() == [int(leaf > 3) for leaf in leaves]
    assert torch.equal(test.groups, test.labels)


def test_images_are_twice_as_bright_and_the_mask_is_what_is_not_leaf(plant_dir):
    batch = plant(plant_dir, size=10, test_background="own").test.batch
    first = names(plant_dir, "test")[0]
    with Image.open(plant_dir / "rgb_data" / first[0] / f"{first}.JPEG") as image:
        pixels = torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)
    assert torch.allclose(batch.x[0], (pixels.float() / 255 * 2).clamp(max=1))
    expected = torch.ones(10, 10)
    expected[3:7] = 0
    assert (batch.mask == expected).all()
    assert batch.mask.shape == (12, 1, 10, 10)


def test_the_background_tells_nothing_at_test(plant_dir):
    unchanged, mean = (
        plant(plant_dir, size=10, validation_share=0, test_background=kind)
        for kind in ("own", "mean")
    )
    batch, background = mean.test.batch, mean.test.batch.mask.bool().expand(-1, 3, -1, -1)
    colour = mean.train.batch.x.mean(dim=(0, 2, 3))
    values = batch.x[background].reshape(12, 3, -1)
    assert torch.allclose(values, colour.reshape(1, 3, 1).expand_as(values))
    assert torch.equal(batch.x[~background], unchanged.test.batch.x[~background])
    assert unchanged.train.digest() == mean.train.digest()


def test_folds_and_validation(plant_dir):
    data = plant(plant_dir, size=10, validation_share=0.25)
    assert (len(data.train), len(data.val), len(data.test)) == (18, 6, 12)
    assert plant(plant_dir, size=10, validation_share=0).val is None
    assert plant(plant_dir, size=10, fold=1).test.digest() != data.test.digest()
    other = plant(plant_dir, size=10, validation_share=0.25, seed=1)
    assert other.val.digest() != data.val.digest()


@pytest.mark.parametrize("shape", [(10, 10), (3, 10, 10), (10, 10, 3)])
def test_masks_of_every_shape(plant_dir, shape):
    path = plant_dir / "mask" / "preprocessed_masks.pyu"
    every = {*names(plant_dir, "train"), *names(plant_dir, "test")}
    path.write_bytes(pickle.dumps({name: np.ones(shape, dtype=bool) for name in every}))
    data = plant(plant_dir, size=20)
    assert data.card.shape == (3, 20, 20)
    assert not data.train.batch.mask.any()


def test_the_layout_is_told(tmp_path, plant_dir):
    words = (
        "in rgb_dataset_splits and mask.preprocessed_masks.pyu; but found no .*train_0.txt, no rgb"
    )
    with pytest.raises(DatasetNotFoundError, match=words):
        plant(plant_dir, fold=0)


def test_lists_that_contradict_themselves(plant_dir):
    path = plant_dir / "rgb_dataset_splits" / "train_2.txt"
    both = names(plant_dir, "test")[0]
    path.write_text(f"leaf\n{both}\n")
    words = f"3 problems: leaf: has no mask; leaf: is not DAY_Z<leaf>_…; {both}: is in both parts"
    with pytest.raises(DatasetCorruptError, match=words):
        plant(plant_dir)
    path.write_text("")
    with pytest.raises(DatasetCorruptError, match="1 problem: a list without names"):
        plant(plant_dir)


def test_missing_images_are_listed(plant_dir):
    name = names(plant_dir, "train")[0]
    (plant_dir / "rgb_data" / name[0] / f"{name}.JPEG").unlink()
    words = f"the images its lists name, but got:\n  row 1, rgb_data/1/{name}.JPEG: no such file"
    with pytest.raises(DatasetCorruptError, match=words):
        plant(plant_dir)
