import gzip
import hashlib
import importlib

import numpy as np
import pytest

from rightreasons.datasets.sets.mnist import read_mnist
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError

mnist_module = importlib.import_module("rightreasons.datasets.sets.mnist")


def assert_equal(arrays, expected):
    for key in ("x_train", "y_train", "x_test", "y_test"):
        assert np.array_equal(getattr(arrays, key), expected[key]), key


def test_npz(npz_dir, tiny_mnist):
    assert_equal(read_mnist(npz_dir), tiny_mnist)
    assert_equal(read_mnist(str(npz_dir)), tiny_mnist)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("layout", ["", "MNIST/raw", "raw"])
def test_idx_files(tmp_path, tiny_mnist, write_idx, layout, packed):
    write_idx(tmp_path / layout, tiny_mnist, packed=packed)
    assert_equal(read_mnist(tmp_path), tiny_mnist)


def test_idx_files_spelled_with_a_dot(tmp_path, tiny_mnist, write_idx):
    write_idx(tmp_path, tiny_mnist)
    for path in tmp_path.iterdir():
        path.rename(path.with_name(path.name.replace("-idx", ".idx")))
    assert_equal(read_mnist(tmp_path), tiny_mnist)


@pytest.mark.parametrize("name", ["empty", "does not exist"])
def test_nothing_there(tmp_path, name):
    (tmp_path / "empty").mkdir()
    words = "found neither mnist.npz nor the four idx files .*pass download=True"
    with pytest.raises(DatasetNotFoundError, match=words):
        read_mnist(tmp_path / name)


def test_three_of_four_are_not_enough(tmp_path, tiny_mnist, write_idx):
    write_idx(tmp_path, tiny_mnist)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DatasetNotFoundError, match="t10k-labels-idx1-ubyte"):
        read_mnist(tmp_path)


def test_the_file_instead_of_its_folder(npz_dir):
    with pytest.raises(DatasetNotFoundError, match=f"to be a folder, .* Pass {npz_dir}"):
        read_mnist(npz_dir / "mnist.npz")


@pytest.mark.parametrize("keep", [0, 1, 1000, -1000])
def test_truncated_npz(npz_dir, keep):
    path = npz_dir / "mnist.npz"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DatasetCorruptError, match="truncated or damaged .* Delete it and copy it"):
        read_mnist(npz_dir)


def test_damaged_npz(npz_dir):
    path = npz_dir / "mnist.npz"
    content = bytearray(path.read_bytes())
    content[5000:6000] = bytes(1000)
    path.write_bytes(content)
    with pytest.raises(DatasetCorruptError, match="truncated or damaged"):
        read_mnist(npz_dir)


def test_npz_without_a_key(tmp_path, tiny_mnist):
    del tiny_mnist["y_test"]
    np.savez(tmp_path / "mnist.npz", **tiny_mnist)
    with pytest.raises(DatasetCorruptError, match="it has no y_test"):
        read_mnist(tmp_path)


def test_npz_that_is_one_array(tmp_path):
    with (tmp_path / "mnist.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(DatasetCorruptError, match="truncated or damaged"):
        read_mnist(tmp_path)


def test_pickles_are_not_opened(tmp_path, tiny_mnist):
    tiny_mnist["y_test"] = np.array([{"a": 1}], dtype=object)
    np.savez(tmp_path / "mnist.npz", **tiny_mnist)
    with pytest.raises(DatasetCorruptError, match="allow_pickle=False"):
        read_mnist(tmp_path)


@pytest.mark.parametrize("packed", [False, True])
def test_truncated_idx(tmp_path, tiny_mnist, write_idx, packed):
    write_idx(tmp_path, tiny_mnist, packed=packed)
    path = tmp_path / ("train-images-idx3-ubyte.gz" if packed else "train-images-idx3-ubyte")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DatasetCorruptError, match="train-images-idx3-ubyte.*truncated or damaged"):
        read_mnist(tmp_path)


def test_idx_with_another_beginning(tmp_path, tiny_mnist, write_idx):
    write_idx(tmp_path, tiny_mnist)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(b"<html>not found</html>")
    with pytest.raises(DatasetCorruptError, match="does not start like an idx file of bytes"):
        read_mnist(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("x_test", np.zeros((300, 32, 32), np.uint8)),
        ("x_test", np.zeros((300, 28, 28), np.float32)),
        ("y_test", np.zeros(299, np.uint8)),
        ("y_test", np.full(300, 10, np.uint8)),
    ],
)
def test_readable_but_not_mnist(tmp_path, tiny_mnist, key, value):
    np.savez(tmp_path / "mnist.npz", **{**tiny_mnist, key: value})
    with pytest.raises(DatasetCorruptError, match="Expected the test part .* Is it MNIST?"):
        read_mnist(tmp_path)


@pytest.fixture
def mirror(tmp_path, tiny_mnist, write_idx, monkeypatch):
    """A mirror of the miniature on disk, and its checksums in place of the published ones."""
    folder = tmp_path / "mirror"
    write_idx(folder, tiny_mnist, packed=True)
    checksums = {
        name: hashlib.sha256(gzip.decompress((folder / f"{name}.gz").read_bytes())).hexdigest()
        for name in mnist_module.IDX_FILES
    }
    monkeypatch.setattr(mnist_module, "IDX_FILES", checksums)
    monkeypatch.setattr(mnist_module, "MIRRORS", (f"{folder.as_uri()}/",))
    return folder


def test_download(mirror, tmp_path, tiny_mnist):
    assert_equal(read_mnist(tmp_path / "data", download=True), tiny_mnist)
    for path in mirror.iterdir():
        path.unlink()
    assert_equal(read_mnist(tmp_path / "data", download=True), tiny_mnist)  # nothing fetched twice
    assert_equal(read_mnist(tmp_path / "data"), tiny_mnist)


def test_download_of_something_else(mirror, tmp_path):
    (mirror / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(b"something else"))
    with pytest.raises(DatasetCorruptError, match="t10k-labels-idx1-ubyte.*expected"):
        read_mnist(tmp_path / "data", download=True)
    assert not list((tmp_path / "data").rglob("*t10k-labels*"))


def test_download_happens_only_when_asked_for(mirror, tmp_path):
    with pytest.raises(DatasetNotFoundError, match="Expected MNIST in"):
        read_mnist(tmp_path / "data")
    assert not (tmp_path / "data").exists()
