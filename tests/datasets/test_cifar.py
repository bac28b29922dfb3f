import numpy as np
import pytest
from tests.conftest import DATA_DIR
from tests.datasets.miniature import cifar_arrays, cifar_bytes, cifar_jpegs, cifar_pickles

from rightreasons.datasets.sets.cifar import read_cifar10
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError


@pytest.mark.parametrize("write", [cifar_pickles, cifar_bytes])
@pytest.mark.parametrize("inside", [False, True])
def test_the_published_batches_are_read(tmp_path, write, inside):
    write(tmp_path)
    folder = next(tmp_path.iterdir()) if inside else tmp_path
    for part, (pixels, y) in zip(read_cifar10(folder), cifar_arrays(), strict=True):
        assert np.array_equal(part.y, y)
        places = np.array([7, 0, 90])
        assert np.array_equal(part.images(places), pixels[places])


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
