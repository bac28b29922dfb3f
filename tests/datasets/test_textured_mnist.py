import importlib
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.datasets.focus_miniature import texture_archive

import rightreasons as rr
from rightreasons.datasets import textured_mnist
from rightreasons.errors import InvalidSettingError

SHARED = Path(__file__).parents[3] / "shared" / "data"
REAL = Path(os.environ.get("RIGHTREASONS_DATA", SHARED))
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


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"size": 7}, "`size` to be a whole number from 8"),
        ({"digit_size": 21}, "`digit_size` to be a whole number from 1 to 20"),
        ({"background_randomness": 1.5}, "`background_randomness` to be a number from 0 to 1"),
        ({"digit_randomness": -1}, "`digit_randomness` to be a number from 0 to 1"),
        ({"textures_per_class": 0}, "`textures_per_class` to be a whole number from 1"),
        ({"num_train": 301}, "`num_train` to be a whole number from 1 to 300"),
        ({"num_validation": 400}, "`num_validation` to be a whole number from 0 to 399"),
        ({"num_test": 0}, "`num_test` to be a whole number from 1 to 300"),
        ({"oracle": 1}, "`oracle` to be True or False"),
        ({"download": 1}, "`download` to be True or False"),
    ],
)
def test_bad_settings(data_dir, settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        textured_mnist(data_dir, **{**SMALL, **settings})


@pytest.mark.skipif(
    not ((REAL / "mnist.npz").exists() and (REAL / "dtd10_128.npz").exists()),
    reason=f"no mnist.npz and dtd10_128.npz in {REAL}",
)
def test_the_real_thing():
    data = textured_mnist(REAL, num_train=50, num_validation=0, num_test=50)
    assert data.val is None
    assert data.card.shape == (3, 48, 48)
    share = data.train.mask.float().mean()
    assert 0.75 < share < 0.95  # a digit covers about a seventh
