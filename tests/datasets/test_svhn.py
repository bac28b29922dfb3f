import sys

import numpy as np
import pytest
import torch
from tests.datasets.miniature import cifar_arrays, svhn_archive, svhn_files

from rightreasons.datasets import svhn
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, MissingExtraError


@pytest.fixture
def data_dir(tmp_path):
    pytest.importorskip("scipy", reason="SciPy reads SVHN")
    svhn_files(tmp_path)
    return tmp_path


def test_digits_are_labels_and_images_stand_upright(data_dir):
    splits = svhn(data_dir, validation=50)
    assert (len(splits.train), len(splits.val), len(splits.test)) == (150, 50, 100)
    pixels, y = cifar_arrays()[1]
    assert torch.equal(splits.test.pixels, torch.from_numpy(pixels))
    assert splits.test.labels.tolist() == y.tolist()
    assert 0 in splits.test.labels


def test_the_folder_may_be_one_above(data_dir):
    inner = data_dir / "above" / "svhn"
    inner.mkdir(parents=True)
    for file in data_dir.glob("*.mat"):
        file.rename(inner / file.name)
    assert len(svhn(data_dir / "above", validation=0, subset=20).train) == 20


def test_missing_and_damaged_files_are_named(data_dir):
    from scipy.io import savemat

    with pytest.raises(DatasetNotFoundError, match="train_32x32.mat and test_32x32.mat there or"):
        svhn(data_dir / "nowhere")
    path = data_dir / "test_32x32.mat"
    path.write_bytes(path.read_bytes()[:1000])
    words = "test_32x32.mat to hold SVHN, but it is truncated or damaged"
    with pytest.raises(DatasetCorruptError, match=words):
        svhn(data_dir, validation=0)
    savemat(path, {"X": np.zeros((32, 32, 3, 2), dtype=np.uint8), "y": np.array([[0], [1]])})
    with pytest.raises(DatasetCorruptError, match=words):
        svhn(data_dir, validation=0)


def test_without_scipy_the_extra_is_named(data_dir, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(MissingExtraError, match=r"svhn needs an extra: .*rightreasons\[data\]"):
        svhn(data_dir)


def test_the_archive(tmp_path):
    svhn_archive(tmp_path)
    splits = svhn(tmp_path, validation=50, subset=100)
    assert (len(splits.train), len(splits.val), len(splits.test)) == (100, 50, 100)
    pixels, y = cifar_arrays()[1]
    assert splits.test.labels.tolist() == y.tolist()
    difference = splits.test.pixels.float() - torch.from_numpy(pixels).float()
    assert difference.abs().mean() < 20
    (tmp_path / "svhn_32.npz").write_bytes(b"nothing")
    with pytest.raises(DatasetCorruptError, match="svhn_32.npz to hold images as JPEG"):
        svhn(tmp_path)
