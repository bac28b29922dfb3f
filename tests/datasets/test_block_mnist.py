import pytest
import torch

from rightreasons.datasets import block_mnist
from rightreasons.errors import DatasetNotFoundError, InvalidSettingError


def whole(part):
    return part.take(torch.arange(len(part)))


def test_parts_and_card(npz_dir):
    data = block_mnist(npz_dir, validation=100, subset=200)
    assert (len(data.train), len(data.val), len(data.test)) == (200, 100, 300)
    assert data.card.shape == tuple(whole(data.test).x.shape[1:]) == (1, 56, 28)
    counts = torch.bincount(data.train.labels).tolist()
    assert list(data.card.train_group_counts) == counts and sum(counts) == 200
    assert block_mnist(npz_dir, validation=0).val is None


def test_training_halves_are_redrawn_and_others_fixed(npz_dir):
    data = block_mnist(npz_dir, validation=100)
    first, second = (whole(data.train.at_epoch(epoch)) for epoch in (0, 1))
    assert not torch.equal(first.mask, second.mask)
    for part in (data.val, data.test):
        assert torch.equal(whole(part.at_epoch(0)).x, whole(part.at_epoch(1)).x)
    inside = data.test.take(torch.arange(300))
    digits = inside.x[(1 - inside.mask).bool()].reshape(300, 28, 28)
    again = block_mnist(npz_dir, validation=100, seed=1).test.take(torch.arange(300))
    assert not torch.equal(again.mask, inside.mask)
    assert torch.equal(again.x[(1 - again.mask).bool()].reshape(300, 28, 28), digits)


def test_everything_outside_the_block_is_the_digit(npz_dir, tiny_mnist):
    batch = whole(block_mnist(npz_dir, validation=0).test)
    seen = batch.x[~batch.mask.bool()].reshape(-1, 28, 28)
    assert torch.equal(seen, torch.from_numpy(tiny_mnist["x_test"]).float() / 255)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"validation": 400}, "Expected `validation` to be a whole number from 0 to 399"),
        ({"validation": 100, "subset": 301}, "Expected `subset` to be a whole number from 1 to 3"),
        ({"subset": 0}, "Expected `subset` to be a whole number from 1"),
        ({"download": 1}, "Expected `download` to be True or False"),
        ({"seed": -1}, "Expected `seed` to be a whole number from 0"),
    ],
)
def test_bad_settings(npz_dir, settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        block_mnist(npz_dir, **settings)


def test_without_mnist(tmp_path):
    with pytest.raises(DatasetNotFoundError, match="Expected MNIST in"):
        block_mnist(tmp_path)
