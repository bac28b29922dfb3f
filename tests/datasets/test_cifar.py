import numpy as np
import pytest
import torch
from tests.conftest import DATA_DIR
from tests.datasets.miniature import (
    cifar100_arrays,
    cifar100_bytes,
    cifar100_pickles,
    cifar_arrays,
    cifar_bytes,
    cifar_jpegs,
    cifar_pickles,
)

from rightreasons.datasets import Augmented, cifar10, cifar100
from rightreasons.datasets.sets.cifar import read_cifar10
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError
from rightreasons.run.config import Config
from rightreasons.run.run import train_run


@pytest.mark.parametrize("write", [cifar_pickles, cifar_bytes])
@pytest.mark.parametrize("inside", [False, True])
def test_the_published_batches_are_read(tmp_path, write, inside):
    write(tmp_path)
    folder = next(tmp_path.iterdir()) if inside else tmp_path
    for part, (pixels, y) in zip(read_cifar10(folder), cifar_arrays(), strict=True):
        assert np.array_equal(part.y, y)
        indices = np.array([7, 0, 90])
        assert np.array_equal(part.images(indices), pixels[indices])


def test_jpegs_are_decoded_in_their_order(tmp_path):
    cifar_jpegs(tmp_path)
    train, test = read_cifar10(tmp_path)
    pixels, y = cifar_arrays()[0]
    assert np.array_equal(train.y, y) and len(test.y) == 100
    decoded = train.images(np.array([150, 3])).astype(int)
    assert np.abs(decoded - pixels[[150, 3]]).mean() < np.abs(decoded - pixels[[3, 150]]).mean() / 2
    cifar_bytes(tmp_path)  # original pixels come first
    assert np.array_equal(read_cifar10(tmp_path)[0].images(np.array([3])), pixels[[3]])


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(DatasetNotFoundError, match="Expected CIFAR-10 in .* Unpack cifar-10-"):
        read_cifar10(tmp_path)
    file = tmp_path / "file"
    file.write_bytes(b"")
    with pytest.raises(DatasetNotFoundError, match="Expected `data_dir` to be a folder"):
        read_cifar10(file)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cifar-10-batches-py/data_batch_2", b"no pickle"),
        ("cifar-10-batches-py/test_batch", b"cos\nsystem\n(S'true'\ntR."),
        ("cifar-10-batches-bin/test_batch.bin", b"\x00" * 100),
        ("cifar-10-batches-bin/test_batch.bin", b""),
        ("cifar-10-batches-bin/test_batch.bin", b"\x0b" * 3073),
        ("cifar10_jpeg.npz", b"PK"),
    ],
)
def test_damaged_files_are_named(tmp_path, name, content):
    {"py": cifar_pickles, "bi": cifar_bytes}.get(name[17:19], cifar_jpegs)(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DatasetCorruptError, match="to hold CIFAR-10, but it is truncated or damag"):
        read_cifar10(tmp_path)


def test_a_damaged_jpeg_is_found_when_it_is_decoded(tmp_path):
    cifar_jpegs(tmp_path)
    path = tmp_path / "cifar10_jpeg.npz"
    arrays = dict(np.load(path))
    arrays["jpeg_train"][:] = 0
    np.savez(path, **arrays)
    train, _ = read_cifar10(tmp_path)
    with pytest.raises(DatasetCorruptError, match="to hold CIFAR-10"):
        train.images(np.array([0]))


def test_the_real_archive_is_read():
    if not (DATA_DIR / "cifar10_jpeg.npz").exists():
        pytest.skip(f"no cifar10_jpeg.npz in {DATA_DIR}: set RIGHTREASONS_DATA to a folder with it")
    train, test = read_cifar10(DATA_DIR)
    assert (len(train.y), len(test.y)) == (50_000, 10_000)
    assert np.bincount(train.y).tolist() == [5_000] * 10
    assert train.images(np.arange(20)).shape == (20, 3, 32, 32)


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
        model="mlp",
        model_settings={"hidden": [4]},
        recipe="alignment",
        epochs=1,
    )
    results = train_run(config, tmp_path / "run", progress=False)
    measured = results["metrics"]["test"]
    assert "accuracy" in measured
    assert not [name for name in measured if name.startswith(("group", "swap", "input_gradient"))]


@pytest.mark.parametrize("write", [cifar100_pickles, cifar100_bytes])
@pytest.mark.parametrize("inside", [False, True])
def test_the_published_files_are_read_with_their_fine_labels(tmp_path, write, inside):
    write(tmp_path)
    folder = next(tmp_path.iterdir()) if inside else tmp_path
    splits = cifar100(folder, validation=100)
    assert (len(splits.train), len(splits.val), len(splits.test)) == (200, 100, 200)
    pixels, fine, _ = cifar100_arrays()[1]
    assert torch.equal(splits.test.pixels, torch.from_numpy(pixels))
    assert splits.test.labels.tolist() == fine.tolist()
    assert torch.bincount(splits.val.labels).tolist() == [1] * 100


def test_a_hundred_names_in_alphabetical_order(tmp_path):
    cifar100_bytes(tmp_path)
    names = cifar100(tmp_path, validation=0).card.classes
    assert len(set(names)) == 100 and list(names) == sorted(names)
    assert (names[0], names[49], names[99]) == ("apple", "mountain", "worm")


def test_settings(tmp_path):
    cifar100_bytes(tmp_path)
    assert isinstance(cifar100(tmp_path, validation=100, flip=True).train, Augmented)
    assert len(cifar100(tmp_path, validation=100, subset=100).train) == 100
    with pytest.raises(InvalidSettingError, match="Expected `subset` .* from 1 to 200"):
        cifar100(tmp_path, validation=100, subset=201)


def test_missing_and_damaged_files_are_named(tmp_path):
    with pytest.raises(DatasetNotFoundError, match="Expected CIFAR-100 in .* Unpack cifar-100-py"):
        cifar100(tmp_path)
    cifar100_bytes(tmp_path)
    path = tmp_path / "cifar-100-binary" / "test.bin"
    for content in (path.read_bytes()[:4000], np.full(3074, 100, dtype=np.uint8).tobytes()):
        path.write_bytes(content)
        with pytest.raises(DatasetCorruptError, match="test.bin to hold CIFAR-100, but it is trun"):
            cifar100(tmp_path)
