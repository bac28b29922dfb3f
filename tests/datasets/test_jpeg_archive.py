import numpy as np
import pytest
from tests.datasets.focus_miniature import jpeg_columns

from rightreasons.datasets.images.files import JpegArchive
from rightreasons.errors import DatasetCorruptError


@pytest.fixture
def path(tmp_path):
    images = [np.full((16, 16, 3), 40 * number) for number in range(3)]
    np.savez(tmp_path / "a.npz", label=np.arange(3), names=["x"], **jpeg_columns(images))
    return tmp_path / "a.npz"


@pytest.mark.parametrize("size", [16, 4])
def test_images_are_decoded_in_the_order_asked_for(path, size):
    archive = JpegArchive(path, columns=["label"], extras=["names"])
    images = archive.images(np.array([2, 0]), size=size)
    assert images.shape == (2, size, size, 3)
    assert np.abs(images.astype(int) - np.array([80, 0]).reshape(2, 1, 1, 1)).max() <= 2
    assert (len(archive), archive.columns["label"].tolist()) == (3, [0, 1, 2])
    assert archive.extras["names"].tolist() == ["x"]


def test_what_cannot_be_read_says_so(path):
    words = "to hold images as JPEG.*truncated or damaged"
    with pytest.raises(DatasetCorruptError, match=words):
        JpegArchive(path, columns=["species"])
    with pytest.raises(DatasetCorruptError, match=f"{words}.*3 images"):
        JpegArchive(path, columns=["names"])
    arrays = dict(np.load(path))
    np.savez(path, **{**arrays, "jpeg": np.zeros_like(arrays["jpeg"])})
    with pytest.raises(DatasetCorruptError, match=words):
        JpegArchive(path, columns=["label"]).images(np.array([0]), size=8)
    path.write_bytes(b"no archive")
    with pytest.raises(DatasetCorruptError, match=words):
        JpegArchive(path, columns=[])
