import builtins

import numpy as np
import pytest
import torch
from PIL import Image
from tests.datasets.miniature import WORKER_WARNINGS

from rightreasons.datasets import folder
from rightreasons.datasets.images.deep import scale_values
from rightreasons.datasets.images.files import image_size, read_image, read_mask
from rightreasons.errors import DatasetCorruptError, MissingExtraError

pytestmark = WORKER_WARNINGS
TABLE = (("a.png", "b.png", "c.npy"), "xyx", ("train", "train", "test"))
RNG = np.random.default_rng(4)
GREY = RNG.integers(0, 65536, size=(4, 6), dtype=np.uint16)
COLOUR = RNG.integers(0, 65536, size=(4, 6, 3), dtype=np.uint16)


def save(path, values):
    if path.suffix == ".npy":
        np.save(path, values)
    elif values.ndim == 3:
        pytest.importorskip("tifffile").imwrite(path, values)
    else:
        Image.fromarray(values).save(path)
    return path


def write_dicom(path, pixels, **fields):
    pydicom = pytest.importorskip("pydicom")
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, generate_uid

    meta = FileMetaDataset()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.7"
    meta.MediaStorageSOPInstanceUID = generate_uid()
    data = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    data.Rows, data.Columns = pixels.shape
    data.SamplesPerPixel, data.PhotometricInterpretation = 1, "MONOCHROME2"
    data.BitsAllocated, data.BitsStored, data.HighBit = 16, 12, 11
    data.PixelRepresentation = int(pixels.dtype == np.int16)
    data.PixelData = pixels.tobytes()
    for name, value in fields.items():
        setattr(data, name, value)
    pydicom.dcmwrite(path, data)
    return path


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("a.png", GREY),
        ("a.tif", GREY),
        ("a.npy", GREY),
        ("a.tif", COLOUR),
        ("a.npy", COLOUR),
    ],
)
def test_16_bits_are_divided_by_65535(tmp_path, name, values):
    path = save(tmp_path / name, values)
    image = read_image(path, size=(4, 6), channels=3).numpy().transpose(1, 2, 0)
    expected = values / 65535 if values.ndim == 3 else np.repeat(values[..., None], 3, 2) / 65535
    np.testing.assert_allclose(image, expected, atol=1e-7)
    assert image_size(path) == (4, 6)


@pytest.mark.parametrize("name", ["a.tif", "a.npy"])
def test_floating_point_lies_in_the_unit_range_or_needs_one(tmp_path, name):
    path = save(tmp_path / name, (GREY / 65535).astype(np.float32))
    np.testing.assert_allclose(
        read_image(path, size=(4, 6), channels=1)[0].numpy(), GREY / 65535, atol=1e-7
    )
    path = save(tmp_path / name, np.linspace(-10, 30, 24, dtype=np.float32).reshape(4, 6))
    with pytest.raises(DatasetCorruptError, match="values from -10 to 30, .* value_range="):
        read_image(path, size=(4, 6), channels=1)
    image = read_image(path, size=(4, 6), channels=1, value_range=(0, 20)).flatten()
    assert image[0] == 0
    assert image[-1] == 1
    assert image.numpy() == pytest.approx(np.clip(np.linspace(-10, 30, 24) / 20, 0, 1), abs=1e-6)


def test_other_values_and_shapes_are_refused(tmp_path):
    with pytest.raises(DatasetCorruptError, match="int16 values from -3 to 5"):
        scale_values(np.array([[-3, 5]], dtype=np.int16), None)
    with pytest.raises(DatasetCorruptError, match="not finite"):
        scale_values(np.array([[np.nan]]), (0, 1))
    with pytest.raises(DatasetCorruptError, match="the type <U1, expected numbers"):
        scale_values(np.array([["a"]]), None)
    path = save(tmp_path / "a.npy", np.zeros((3, 8, 8), dtype=np.uint8))
    with pytest.raises(DatasetCorruptError, match="has the shape .3, 8, 8., expected"):
        read_image(path, size=(8, 8), channels=3)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(DatasetCorruptError, match="cannot be read"):
        read_image(path, size=(8, 8), channels=3)


def test_large_arrays_are_resized_like_images(tmp_path, save_image):
    pixels = RNG.integers(0, 256, size=(8, 12, 3), dtype=np.uint8)
    picture = save_image(tmp_path / "a.png", pixels)
    array = save(tmp_path / "a.npy", pixels)
    as_picture = read_image(picture, size=(4, 6), channels=3)
    np.testing.assert_allclose(
        read_image(array, size=(4, 6), channels=3), as_picture, atol=1.01 / 255
    )
    grey = read_image(array, size=(8, 12), channels=1)
    np.testing.assert_allclose(grey, read_image(picture, size=(8, 12), channels=1), atol=1.01 / 255)


def test_masks_may_be_arrays(tmp_path):
    mask = np.zeros((4, 6), dtype=bool)
    mask[1:, :2] = True
    assert read_mask(save(tmp_path / "m.npy", mask), size=(4, 6)).sum() == 6


def test_dicom_is_read_by_its_window(tmp_path):
    pixels = np.array([[0, 1000], [2000, 4095]], dtype=np.uint16)
    path = write_dicom(tmp_path / "a.dcm", pixels)
    image = read_image(path, size=(2, 2), channels=1)[0].numpy()
    np.testing.assert_allclose(image, pixels / 4095, atol=1e-6)
    assert image_size(path) == (2, 2)
    hounsfield = {"RescaleSlope": 2, "RescaleIntercept": -1000}
    write_dicom(path, pixels, WindowCenter=[1000.5, 3], WindowWidth=[2001, 3], **hounsfield)
    image = read_image(path, size=(2, 2), channels=1)[0].numpy()  # 0 to 2000 is the window
    np.testing.assert_allclose(image, [[0, 0.5], [1, 1]], atol=1e-6)
    image = read_image(path, size=(2, 2), channels=1, value_range=(-1000, 9000))[0].numpy()
    np.testing.assert_allclose(image, pixels / 5000, atol=1e-6)
    write_dicom(path, pixels, PhotometricInterpretation="MONOCHROME1")
    image = read_image(path, size=(2, 2), channels=1)[0].numpy()
    np.testing.assert_allclose(image, 1 - pixels / 4095, atol=1e-6)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(DatasetCorruptError, match="cannot be read as DICOM"):
        read_image(path, size=(2, 2), channels=1)


@pytest.mark.parametrize("name", ["a.dcm", "a.tif"])
def test_the_extra_is_named(tmp_path, monkeypatch, name):
    path = tmp_path / name
    if name == "a.tif":
        save(path, COLOUR)
    imported = builtins.__import__

    def without(module, *args, **kwargs):
        if module in ("pydicom", "tifffile"):
            raise ImportError
        return imported(module, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"rightreasons\[formats\]"):
        read_image(path, size=(4, 6), channels=3)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_batch_may_mix_depths(tmp_path, workers):
    Image.fromarray((COLOUR // 257).astype(np.uint8)).save(tmp_path / "a.png")
    save(tmp_path / "b.png", GREY)
    save(tmp_path / "c.npy", (COLOUR / 65535).astype(np.float32))
    rows = [f"{name},{label},{split}" for name, label, split in zip(*TABLE, strict=True)]
    (tmp_path / "data.csv").write_text("\n".join(["file,label,split", *rows]))
    stored = folder(tmp_path, in_memory=False, workers=workers).train
    (batch,) = stored.batches([torch.arange(2)])
    assert torch.equal(batch.x, folder(tmp_path, in_memory=True).train.take(torch.arange(2)).x)
    assert torch.equal(batch.x, stored.take(torch.arange(2)).x)
