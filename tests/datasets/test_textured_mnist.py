import importlib

import numpy as np
import pytest
import torch
from tests.conftest import DATA_DIR
from tests.datasets.miniature import texture_archive, texture_folders

import rightreasons as rr
from rightreasons.core.rng import random_stream
from rightreasons.datasets import textured_mnist
from rightreasons.datasets.sets.textured_mnist import DIGIT_CLASSES, read_textures
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError

SMALL = {"size": 20, "textures_per_class": 2, "num_train": 200, "num_validation": 100}
SMALL |= {"num_test": 100}


@pytest.fixture
def data_dir(tmp_path):
    """Squares for digits, and textures whose grey tells their class."""
    digit = np.zeros((28, 28), dtype=np.uint8)
    digit[8:20, 8:20] = 200
    np.savez(
        tmp_path / "mnist.npz",
        x_train=np.stack([digit] * 400),
        y_train=np.arange(400, dtype=np.uint8) % 10,
        x_test=np.stack([digit] * 300),
        y_test=np.arange(300, dtype=np.uint8) % 10,
    )
    texture_archive(tmp_path)
    return tmp_path


def classes(part, *, inside):
    """The class of each background, or of each digit's texture, by its grey."""
    batch = part.take(torch.arange(len(part)))
    where = (batch.mask if inside == "mask" else 1 - batch.mask).expand_as(batch.x)
    greys = 255 * (batch.x * where).sum(dim=(1, 2, 3)) / where.sum(dim=(1, 2, 3))
    return ((greys - 5) / 20).round().long()


def test_backgrounds_tell_the_digit_in_training_and_validation_alone(data_dir):
    data = textured_mnist(data_dir, **SMALL)
    assert (len(data.train), len(data.val), len(data.test)) == (200, 100, 100)
    for part in (data.train, data.val):
        assert torch.equal(classes(part, inside="mask"), part.labels)
    assert (classes(data.test, inside="mask") == data.test.labels).float().mean() < 0.25
    for part in (data.train, data.test):
        assert (classes(part, inside="digit") == part.labels).float().mean() < 0.25


def test_how_many_are_made_together_does_not_matter(data_dir, monkeypatch):
    whole = textured_mnist(data_dir, **SMALL)
    module = importlib.import_module("rightreasons.datasets.sets.textured_mnist")
    monkeypatch.setattr(module, "TOGETHER", 7)
    parts = textured_mnist(data_dir, **SMALL)
    for name in ("train", "val", "test"):
        assert getattr(whole, name).digest() == getattr(parts, name).digest()


def test_both_kinds_of_randomness(data_dir):
    data = textured_mnist(data_dir, background_randomness=0.5, digit_randomness=0.0, **SMALL)
    for part in (data.train, data.val, data.test):
        assert torch.equal(classes(part, inside="digit"), part.labels)
    share = (classes(data.train, inside="mask") == data.train.labels).float().mean()
    assert 0.45 < share < 0.65  # half, and a tenth of the other half


def test_the_oracle_differs_in_backgrounds_alone(data_dir):
    data, oracle = (textured_mnist(data_dir, oracle=flag, **SMALL) for flag in (False, True))
    assert data.test.digest() == oracle.test.digest()
    assert torch.equal(data.train.mask, oracle.train.mask)
    digit = ~data.train.mask.expand_as(data.train.pixels)
    assert torch.equal(data.train.pixels[digit], oracle.train.pixels[digit])
    assert (classes(oracle.train, inside="mask") == oracle.train.labels).float().mean() < 0.2


def test_the_digit_has_its_size_and_moves(data_dir):
    data = textured_mnist(data_dir, **{**SMALL, "size": 28}, digit_size=14)
    free = ~data.train.mask[:, 0]
    assert free.sum(dim=(1, 2)).unique().tolist() == [36]  # 12 of 28 pixels, halved
    tops = free.any(dim=2).int().argmax(dim=1)
    assert (tops.min(), tops.max()) == (4, 18)
    whole = textured_mnist(data_dir, **{**SMALL, "size": 29})
    assert (~whole.train.mask).sum(dim=(1, 2, 3)).unique().tolist() == [144]


def test_exchanged_backgrounds_mislead_a_model_that_reads_them(data_dir):
    """What settings are chosen by: swap accuracy on validation data."""
    data = textured_mnist(data_dir, **SMALL)

    class ReadsBackground(torch.nn.Module):
        def forward(self, x):
            grey = 255 * x[:, :, :, 0].mean(dim=(1, 2))  # the digit is not there
            return -(grey[:, None] - 5 - 20 * torch.arange(10)).square()

    values = rr.evaluate(ReadsBackground(), data.val, ["accuracy", "swap_accuracy"])
    assert values["accuracy"] == 1
    assert values["swap_accuracy"] < 0.25


@pytest.mark.skipif(
    not ((DATA_DIR / "mnist.npz").exists() and (DATA_DIR / "dtd10_128.npz").exists()),
    reason=f"no mnist.npz and dtd10_128.npz in {DATA_DIR}",
)
def test_the_real_thing():
    data = textured_mnist(DATA_DIR, num_train=50, num_validation=0, num_test=50)
    assert data.val is None
    assert data.card.shape == (3, 48, 48)
    share = data.train.mask.float().mean()
    assert 0.75 < share < 0.95  # a digit covers about a seventh


CLASSES = (*DIGIT_CLASSES, *(f"background {letter}" for letter in "abcdefghijk"))


def read(root, *, source="auto", per_class=2, seed=0, size=20, **more):
    stream = random_stream(seed, "test")
    return read_textures(root, size=size, per_class=per_class, source=source, stream=stream, **more)


def greys(images):
    return [int(round(float(one.mean()))) for one in images]


def test_formulas_where_there_are_no_photographs(tmp_path):
    drawn = read(tmp_path)
    assert drawn.source == "textures drawn by formula"
    assert len(drawn.background) == len(drawn.digit) == 10
    assert drawn.background[3].shape == (2, 128, 128, 3)
    again, other = read(tmp_path), read(tmp_path, seed=1)
    assert np.array_equal(drawn.digit[9], again.digit[9])
    assert not np.array_equal(drawn.digit[9], other.digit[9])
    assert read(tmp_path, size=150).digit[0].shape[1] == 150


def test_directions_differ_between_drawn_classes(tmp_path):
    """Class 0 waves along columns, class 5 along rows."""
    drawn = read(tmp_path, per_class=3)
    for number, axis in ((0, 1), (5, 0)):
        for image in drawn.background[number].mean(axis=3):
            along, across = (np.abs(np.diff(image, axis=one)).mean() for one in (axis, 1 - axis))
            assert along > across


def test_thirty_seven_classes_behind_digits_of_which_ten_tell_them(tmp_path):
    """Tens of classes differ in the form of their waves, which the greys show."""
    drawn = read(tmp_path, per_class=4, background_classes=37)
    assert len(drawn.background) == 37 and len(drawn.digit) == 10
    pixels = np.stack(drawn.background).astype(float).reshape(37, 4, -1, 3)
    widest = pixels.std(axis=2).argmax(axis=2)
    waves = np.take_along_axis(pixels, widest[:, :, None, None], axis=3)[..., 0]
    low, high = np.percentile(waves, [3, 97], axis=2, keepdims=True)
    waves = ((waves - low) / (high - low) * 2 - 1).clip(-1, 1)
    sizes, means = np.abs(waves).mean(axis=2), np.abs(waves.mean(axis=2))
    forms = [np.median(sizes[first : first + 10]) for first in (0, 10, 30)]
    assert forms[1] > forms[0] + 0.1 > forms[2] + 0.15  # steps, smooth, rising at once
    assert np.median(means[20:30]) > 0.15 > max(np.median(means[:10]), np.median(means[30:]))
    ten = read(tmp_path, per_class=4)
    assert all(
        np.array_equal(*pair) for pair in zip(ten.background, drawn.background[:10], strict=True)
    )
    texture_archive(tmp_path)
    words = "Expected 37 classes of textures for backgrounds in .*, but found 10. Ask for fewer"
    with pytest.raises(DatasetNotFoundError, match=words):
        read(tmp_path, per_class=3, background_classes=37)


def test_an_archive_of_ten_classes_serves_both_without_an_image_in_common(tmp_path):
    texture_archive(tmp_path)
    textures = read(tmp_path, per_class=3)
    assert "dtd10_128.npz" in textures.source
    for number in range(10):
        assert all(abs(g - 20 * number - 6) <= 3 for g in greys(textures.background[number]))
        both = np.concatenate([textures.background[number], textures.digit[number]])
        assert len({one.tobytes() for one in both}) == 6


def test_folders_of_dtd_come_first(tmp_path):
    texture_archive(tmp_path)
    texture_folders(tmp_path, CLASSES)
    textures = read(tmp_path)
    assert textures.source == "DTD, M. Cimpoi et al. 2014"
    assert len(textures.background) == 11
    for number in range(10):
        assert all(abs(grey - 5 * number) <= 2 for grey in greys(textures.digit[number]))
        assert all(
            abs(grey - 5 * (10 + number)) <= 2 for grey in greys(textures.background[number])
        )
    assert read(tmp_path, source="procedural").source == "textures drawn by formula"
    assert "npz" in read(tmp_path, source="dtd10").source


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(InvalidSettingError, match="`textures` to be 'auto' or 'dtd'"):
        read(tmp_path, source="paper")
    with pytest.raises(DatasetNotFoundError, match=r"no folder `banded`. Unpack dtd-r1.0.1"):
        read(tmp_path, source="dtd")
    with pytest.raises(DatasetNotFoundError, match=r"dtd10_128.npz, but there is none"):
        read(tmp_path, source="dtd10")
    texture_archive(tmp_path)
    with pytest.raises(DatasetNotFoundError, match="Expected 8 textures of class 0.*found 6"):
        read(tmp_path, per_class=4)
    texture_folders(tmp_path, CLASSES[:12])
    with pytest.raises(DatasetNotFoundError, match="the 47 classes of DTD, but it has 2 of those"):
        read(tmp_path)


def test_a_damaged_photograph_is_named(tmp_path):
    texture_folders(tmp_path, CLASSES)
    (tmp_path / "dtd" / "images" / "grid" / "grid_0001.jpg").write_bytes(b"nothing")
    with pytest.raises(DatasetCorruptError, match="images of DTD in .*grid, but one of them"):
        read(tmp_path)
