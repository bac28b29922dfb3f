import numpy as np
import pytest
import torch
from tests.datasets.miniature import cifar100_arrays, cifar100_bytes, cifar100_pickles

from rightreasons.datasets import Augmented, cifar100
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError


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
