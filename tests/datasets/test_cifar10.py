import pytest
import torch
from tests.datasets.miniature import cifar_arrays, cifar_bytes

from rightreasons.datasets import Augmented, cifar10
from rightreasons.errors import InvalidSettingError
from rightreasons.run.run import Config, train_run


@pytest.fixture
def data_dir(tmp_path):
    cifar_bytes(tmp_path)
    return tmp_path


def test_parts_have_the_sizes_asked_for_and_equal_shares(data_dir):
    splits = cifar10(data_dir, validation=50, subset=60)
    assert (len(splits.train), len(splits.val), len(splits.test)) == (60, 50, 100)
    for part, share in ((splits.train, 6), (splits.val, 5)):
        assert torch.bincount(part.labels).tolist() == [share] * 10
    pixels, _ = cifar_arrays()[1]
    assert torch.equal(splits.test.pixels, torch.from_numpy(pixels))
    everything = cifar10(data_dir, validation=0)
    assert everything.val is None and len(everything.train) == 200


def test_a_smaller_subset_is_part_of_a_larger_one(data_dir):
    small, large = (cifar10(data_dir, validation=20, subset=size) for size in (30, 90))
    assert torch.equal(small.val.pixels, large.val.pixels)
    rows = {row.numpy().tobytes() for row in large.train.pixels}
    assert {row.numpy().tobytes() for row in small.train.pixels} < rows


def test_training_images_may_be_augmented(data_dir):
    splits = cifar10(data_dir, validation=20, flip=True, crop=2, seed=3)
    assert isinstance(splits.train, Augmented)
    assert (splits.train.flip, splits.train.crop, splits.train.seed) == (True, 2, 3)


def test_settings_are_checked(data_dir):
    for settings, words in (
        ({"validation": 200}, "Expected `validation` to be a whole number from 0 to 199"),
        ({"validation": 50, "subset": 151}, "Expected `subset` to be a whole number from 1 to 150"),
        ({"subset": 0}, "Expected `subset`"),
        ({"flip": 1}, "Expected `flip`"),
    ):
        with pytest.raises(InvalidSettingError, match=words):
            cifar10(data_dir, **settings)


def test_a_run_needs_neither_masks_nor_groups(data_dir, tmp_path):
    """What needs them is left out of what is measured."""
    config = Config(
        data="cifar10",
        data_dir=str(data_dir),
        data_settings={"validation": 20, "subset": 40},
        model_settings={"hidden": [4]},
        recipe="alignment",
        epochs=1,
    )
    results = train_run(config, tmp_path / "run", progress=False)
    measured = results["metrics"]["test"]
    assert "accuracy" in measured
    assert not [name for name in measured if name.startswith(("group", "swap", "input_gradient"))]
