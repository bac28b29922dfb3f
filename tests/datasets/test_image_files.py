import os
import pickle
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image
from tests.datasets.miniature import jpeg_columns

from rightreasons.datasets.images.archives import JpegArchive, read_pickled_arrays
from rightreasons.datasets.images.files import image_size, read_image, read_mask
from rightreasons.errors import DatasetCorruptError

RAMP = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
HALF = np.zeros((4, 6), dtype=np.uint8)
HALF[:, :3] = 1


def test_pixels_are_channels_first_in_the_unit_range(tmp_path, save_image):
    path = save_image(tmp_path / "a.png", RAMP)
    image = read_image(path, size=(4, 6), channels=3)
    assert image_size(path) == (4, 6)
    assert image.dtype == torch.float32
    assert torch.equal(image, torch.from_numpy(RAMP).permute(2, 0, 1).float() / 255)


def test_grey_and_colour_are_converted(tmp_path, save_image):
    grey = save_image(tmp_path / "grey.png", RAMP[..., 0])
    assert read_image(grey, size=(4, 6), channels=3).unique(dim=0).shape == (1, 4, 6)
    colour = save_image(tmp_path / "colour.png", RAMP)
    assert read_image(colour, size=(4, 6), channels=1).shape == (1, 4, 6)


def test_palettes_and_transparency_are_read(tmp_path):
    palette = Image.fromarray(RAMP).quantize(8)
    palette.info["transparency"] = bytes([0, 128] + [255] * 6)
    palette.save(tmp_path / "palette.png", transparency=palette.info["transparency"])
    assert read_image(tmp_path / "palette.png", size=(4, 6), channels=3).shape == (3, 4, 6)


def test_resizing(tmp_path, save_image):
    path = save_image(tmp_path / "a.png", np.full((40, 60, 3), 51))
    image = read_image(path, size=(5, 7), channels=3)
    assert image.shape == (3, 5, 7)
    assert torch.allclose(image, torch.tensor(0.2))


def test_photographs_are_turned_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # stored lying on its side
    Image.fromarray(RAMP).save(tmp_path / "photo.png", exif=exif)
    assert image_size(tmp_path / "photo.png") == (6, 4)
    image = read_image(tmp_path / "photo.png", size=(6, 4), channels=3)
    expected = torch.from_numpy(np.rot90(RAMP, k=-1).copy()).permute(2, 0, 1).float() / 255
    assert torch.equal(image, expected)


@pytest.mark.parametrize("white", [1, 38, 255])
def test_one_value_beside_black_is_white(tmp_path, save_image, white):
    path = save_image(tmp_path / "mask.png", HALF * white)
    assert torch.equal(read_mask(path, size=(4, 6))[0], torch.from_numpy(HALF).float())


def test_bits_and_empty_masks(tmp_path, save_image):
    Image.fromarray(HALF.astype(bool)).save(tmp_path / "bits.png")
    assert read_mask(tmp_path / "bits.png", size=(4, 6)).sum() == 12
    path = save_image(tmp_path / "black.png", HALF * 0)
    assert read_mask(path, size=(4, 6)).sum() == 0


def test_soft_masks_keep_their_values(tmp_path, save_image):
    pixels = HALF * 255
    pixels[0, 0] = 51
    mask = read_mask(save_image(tmp_path / "soft.png", pixels), size=(4, 6))
    assert mask[0, 0, 0] == pytest.approx(0.2)
    assert mask.max() == 1


def test_transparent_is_black(tmp_path):
    rgba = np.full((4, 6, 4), 255, dtype=np.uint8)
    rgba[..., 3] = HALF * 255
    Image.fromarray(rgba).save(tmp_path / "drawn.png")
    assert torch.equal(read_mask(tmp_path / "drawn.png", size=(4, 6))[0], torch.from_numpy(HALF))


def test_resized_masks_get_no_new_values(tmp_path, save_image):
    path = save_image(tmp_path / "mask.png", HALF * 255)
    mask = read_mask(path, size=(9, 11))
    assert mask.shape == (1, 9, 11)
    assert mask.unique().tolist() == [0, 1]


def test_class_numbers_are_no_mask(tmp_path, save_image):
    trimap = HALF + 1
    path = save_image(tmp_path / "trimap.png", trimap)
    with pytest.raises(DatasetCorruptError, match="values 1 to 2, which look like class numbers"):
        read_mask(path, size=(4, 6))


def test_missing_file(tmp_path):
    with pytest.raises(DatasetCorruptError, match="^no such file$"):
        image_size(tmp_path / "nothing.png")


def test_not_an_image(tmp_path):
    (tmp_path / "text.png").write_text("hello")
    with pytest.raises(DatasetCorruptError, match="is not an image Pillow can read"):
        image_size(tmp_path / "text.png")


@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
def test_truncated_image(tmp_path, save_image, name):
    noise = np.random.default_rng(0).integers(0, 256, size=(64, 64, 3))
    path = save_image(tmp_path / name, noise)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert image_size(path) == (64, 64)
    with pytest.raises(DatasetCorruptError, match="cannot be read"):
        read_image(path, size=(64, 64), channels=3)


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


ARRAYS = {"a": np.arange(6).reshape(2, 3) > 2, "b": np.ones((3, 2, 2), order="F")}


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_of_every_protocol(tmp_path, protocol):
    path = tmp_path / "arrays.pyu"
    path.write_bytes(pickle.dumps(ARRAYS, protocol=protocol))
    arrays = read_pickled_arrays(path)
    assert arrays.keys() == ARRAYS.keys()
    assert all(np.array_equal(arrays[name], array) for name, array in ARRAYS.items())


def test_old_numpy_names_are_known(tmp_path):
    path = tmp_path / "arrays.pyu"
    content = pickle.dumps(ARRAYS, protocol=2)
    path.write_bytes(content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    assert read_pickled_arrays(path)["a"].sum() == 3


class Command:
    def __reduce__(self):
        return os.mkdir, ("made by a pickle",)


def test_code_is_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "arrays.pyu"
    path.write_bytes(pickle.dumps({"a": Command()}))
    with pytest.raises(
        DatasetCorruptError, match=r"it wants \w+.mkdir, which is no part of an arr"
    ):
        read_pickled_arrays(path)
    assert os.listdir(tmp_path) == ["arrays.pyu"]


@pytest.mark.parametrize("content", [[1, 2], {"a": 1}, {1: np.zeros(2)}])
def test_other_things(tmp_path, content):
    path = tmp_path / "arrays.pyu"
    path.write_bytes(pickle.dumps(content))
    with pytest.raises(
        DatasetCorruptError, match="a pickled dictionary of arrays by name, but got"
    ):
        read_pickled_arrays(path)


def test_damaged_files(tmp_path):
    path = tmp_path / "arrays.pyu"
    path.write_bytes(pickle.dumps(ARRAYS)[:-20])
    with pytest.raises(DatasetCorruptError, match="a pickled dictionary of arrays, but got: "):
        read_pickled_arrays(path)


def save_deep_colour(path, values):
    """A PNG with 16 bits a channel, which Pillow reads and does not write."""
    height, width, _ = values.shape
    lines = b"".join(b"\0" + line.astype(">u2").tobytes() for line in values)
    header = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n"
    for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")):
        content += struct.pack(">I", len(data)) + kind + data
        content += struct.pack(">I", zlib.crc32(kind + data))
    path.write_bytes(content)
    return path


def test_deep_colours_keep_all_16_bits(tmp_path):
    values = np.random.default_rng(0).integers(0, 65536, size=(4, 6, 3))
    path = save_deep_colour(tmp_path / "deep.png", values)
    image = read_image(path, size=(4, 6), channels=3).numpy().transpose(1, 2, 0)
    np.testing.assert_allclose(image, values / 65535, atol=1e-7)
    with pytest.raises(DatasetCorruptError, match="is a mask of RGB;16B pixels"):
        read_mask(path, size=(4, 6))


@pytest.mark.parametrize("kind", [np.uint16, np.int32, np.float32])
def test_deep_masks_are_black_and_white_or_refused(tmp_path, kind):
    half = np.zeros((4, 6), dtype=kind)
    half[:, :3] = 1
    for white in (1, 255, 65535):
        Image.fromarray(half * kind(white)).save(tmp_path / "mask.tiff")
        assert read_mask(tmp_path / "mask.tiff", size=(4, 6)).mean().item() == 0.5
    soft = np.linspace(0, 1 if kind is np.float32 else 65535, 24).reshape(4, 6).astype(kind)
    Image.fromarray(soft).save(tmp_path / "soft.tiff")
    with pytest.raises(DatasetCorruptError, match="with several values, expected 8 bits a channel"):
        read_mask(tmp_path / "soft.tiff", size=(4, 6))
    Image.fromarray(np.zeros((4, 6), dtype=kind)).save(tmp_path / "empty.tiff")
    assert read_mask(tmp_path / "empty.tiff", size=(4, 6)).sum().item() == 0
