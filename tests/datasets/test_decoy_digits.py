import builtins

import pytest
import torch

from rightreasons.datasets import decoy_digits
from rightreasons.errors import MissingExtraError


def greys(data):
    return (data.batch.x * data.batch.mask).amax(dim=(1, 2, 3))


def test_sizes_and_balance():
    data = decoy_digits()
    assert [len(part) for part in (data.train, data.val, data.test)] == [1000, 297, 500]
    for part in (data.train, data.val, data.test):
        counts = torch.bincount(part.labels).tolist()
        assert max(counts) - min(counts) <= len(part) * 0.01
    assert sum(data.card.train_group_counts) == 1000


def test_digits_are_centred_and_corners_are_free():
    data = decoy_digits(size=15, patch=2, seed=4)
    outside = data.train.batch.x * (1 - data.train.batch.mask)
    assert data.card.shape == (1, 15, 15)
    assert outside[:, :, 3:11, 3:11].sum() == outside.sum()
    assert data.train.batch.mask.sum(dim=(1, 2, 3)).unique().tolist() == [4.0]


def test_the_oracle_differs_in_the_greys_of_training_and_validation_only():
    data, oracle = decoy_digits(seed=2), decoy_digits(seed=2, oracle=True)
    assert oracle.test.digest() == data.test.digest()
    for planted, free in ((data.train, oracle.train), (data.val, oracle.val)):
        assert torch.equal(planted.batch.mask, free.batch.mask)
        outside = 1 - planted.batch.mask
        assert torch.equal(planted.batch.x * outside, free.batch.x * outside)
        assert not torch.equal(greys(planted), greys(free))


def test_test_colours():
    label_greys = 1 - torch.arange(10) * 25 / 255
    wrong, uniform = decoy_digits(test_colours="wrong").test, decoy_digits().test
    assert not torch.isclose(greys(wrong), label_greys[wrong.labels]).any()
    assert 0.05 < torch.isclose(greys(uniform), label_greys[uniform.labels]).float().mean() < 0.15


def test_without_validation_training_gets_everything():
    data = decoy_digits(validation=0)
    assert data.val is None
    assert len(data.train) == 1297


def test_scikit_learn_is_an_extra(monkeypatch):
    real = builtins.__import__

    def without_sklearn(name, *args, **kwargs):
        if name.startswith("sklearn"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_sklearn)
    with pytest.raises(MissingExtraError, match=r'decoy_digits .* "rightreasons\[data\]"'):
        decoy_digits()


def test_pixels_may_be_the_columns_of_a_table():
    image, table = decoy_digits(seed=3), decoy_digits(seed=3, table=True)
    assert table.card.shape == (196,)
    assert torch.equal(table.train.batch.x, image.train.batch.x.flatten(1))
    assert torch.equal(table.train.batch.mask, image.train.batch.mask.flatten(1))
