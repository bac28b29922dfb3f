import pytest
import torch

from rightreasons.core.checks import check_fraction
from rightreasons.datasets import Augmented, Splits, decoy_digits
from rightreasons.datasets.splitting import change_training
from rightreasons.datasets.wrappers import select
from rightreasons.errors import InvalidSettingError


@pytest.mark.parametrize("value", [0, 0.25, 1, 1.0])
def test_fractions(value):
    assert check_fraction("share", value) == value


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), True, "0.5", None])
def test_what_is_no_fraction(value):
    with pytest.raises(InvalidSettingError, match="Expected `share` to be a number from 0 to 1, "):
        check_fraction("share", value)


def test_the_other_parts_keep_their_samples_and_share_the_card():
    data = decoy_digits()
    few = change_training(data, lambda train: select(train, torch.arange(7)), note="Seven only.")
    assert len(few.train) == 7
    assert few.card.description == f"{data.card.description} Seven only."
    assert few.train.card == few.val.card == few.test.card
    assert sum(few.card.train_group_counts) == 7
    assert (few.val.digest(), few.test.digest()) == (data.val.digest(), data.test.digest())
    assert sum(data.test.card.train_group_counts) == 1000


def test_data_are_changed_before_they_are_flipped():
    data = decoy_digits(validation=0)
    augmented = Splits(train=Augmented(data.train, flip=True, seed=4), val=None, test=data.test)
    few = change_training(augmented, lambda train: select(train, torch.arange(5)), note="")
    assert isinstance(few.train, Augmented)
    assert (few.train.flip, few.train.crop, few.train.seed) == (True, 0, 4)
    assert torch.equal(few.train.base.batch.x, data.train.batch.x[:5])
    assert few.val is None


def test_more_test_sets_stay():
    data = decoy_digits()
    splits = Splits(train=data.train, val=None, test=data.test, more_tests={"more": data.val})
    few = change_training(splits, lambda train: select(train, torch.arange(7)), note="Seven only.")
    assert few.more_tests["more"].card == few.card
    assert few.more_tests["more"].digest() == data.val.digest()
