import numpy as np
import pytest
import torch

from rightreasons.core.checks import check_fraction
from rightreasons.core.rng import random_stream
from rightreasons.datasets import Augmented, Card, Splits, decoy_digits
from rightreasons.datasets.dataset import group_counts
from rightreasons.datasets.splitting import (
    assign_splits,
    change_training,
    in_memory_splits,
    stratified_split,
)
from rightreasons.datasets.wrappers import select
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Batch


def test_every_sample_goes_to_exactly_one_part():
    y = torch.randint(7, (997,), generator=torch.Generator().manual_seed(0))
    parts = stratified_split(y, sizes=[100, 0, 250], stream=random_stream(0))
    assert [len(part) for part in parts] == [100, 0, 250, 647]
    assert torch.cat(parts).sort().values.tolist() == list(range(997))


def test_labels_have_the_same_share_everywhere():
    y = torch.cat([torch.zeros(900, dtype=torch.long), torch.ones(90, dtype=torch.long)])
    for part in stratified_split(y, sizes=[110, 220], stream=random_stream(1)):
        assert abs(int(y[part].sum()) - len(part) / 11) <= 1


def test_the_draw_is_random_within_a_label_and_repeats_with_the_stream():
    y = torch.zeros(100, dtype=torch.long)
    first, again, other = (
        stratified_split(y, sizes=[50], stream=random_stream(seed))[0].tolist()
        for seed in (0, 0, 1)
    )
    assert first == again != other
    assert first != list(range(50))


def test_groups_are_counted_without_the_unknown():
    assert group_counts(torch.tensor([0, 2, 2, -1]), 4) == (1, 0, 2, 0)
    assert group_counts(None, 3) == ()


def test_all_parts_share_the_card_with_the_training_counts():
    train = Batch(x=torch.zeros(3, 2), y=torch.tensor([0, 1, 1]), group=torch.tensor([1, 1, 0]))
    test = Batch(x=torch.zeros(1, 2), y=torch.tensor([0]), group=torch.tensor([0]))
    card = Card(classes=("no", "yes"), groups=("a", "b"))
    splits = in_memory_splits(train=train, val=None, test=test, card=card)
    assert splits.val is None
    assert splits.train.card == splits.test.card == splits.card
    assert splits.card.train_group_counts == (1, 2)


STRATA = torch.tensor([0] * 60 + [1] * 40)


def dealt(**shares):
    return assign_splits(STRATA, stream=np.random.default_rng(0), **shares)


def test_every_split_gets_its_share_of_each_stratum():
    names = dealt(test_share=0.2, validation_share=0.1)
    assert [names.count(name) for name in ("train", "val", "test")] == [70, 10, 20]
    assert [names[:60].count(name) for name in ("train", "val", "test")] == [42, 6, 12]


@pytest.mark.parametrize(
    ("test_share", "validation_share"), [(0.0, 0.1), (0.001, 0.0), (0.6, 0.4), (0.9, 0.2)]
)
def test_training_and_test_need_samples(test_share, validation_share):
    with pytest.raises(InvalidSettingError, match="to leave samples to train and to test on, but"):
        dealt(test_share=test_share, validation_share=validation_share)


@pytest.mark.parametrize("name", ["test_share", "validation_share"])
def test_shares_are_numbers(name):
    with pytest.raises(
        InvalidSettingError, match=f"Expected `{name}` to be a number from 0 to bel"
    ):
        dealt(**{"test_share": 0.1, "validation_share": 0.1, name: "half"})


@pytest.mark.parametrize("value", [0, 0.25, 1, 1.0])
def test_fractions(value):
    assert check_fraction("share", value) == value


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), True, "0.5", None])
def test_what_is_no_fraction(value):
    with pytest.raises(InvalidSettingError, match="Expected `share` to be a number from 0 to 1, "):
        check_fraction("share", value)


def test_the_other_parts_keep_their_samples_and_share_the_card():
    data = decoy_digits()
    changed = change_training(
        data, lambda train: select(train, torch.arange(7)), note="Seven only."
    )
    assert len(changed.train) == 7
    assert changed.card.description == f"{data.card.description} Seven only."
    assert changed.train.card == changed.val.card == changed.test.card
    assert sum(changed.card.train_group_counts) == 7
    assert (changed.val.digest(), changed.test.digest()) == (data.val.digest(), data.test.digest())
    assert sum(data.test.card.train_group_counts) == 1000


def test_data_are_changed_before_they_are_flipped():
    data = decoy_digits(validation=0)
    augmented = Splits(train=Augmented(data.train, flip=True, seed=4), val=None, test=data.test)
    changed = change_training(augmented, lambda train: select(train, torch.arange(5)), note="")
    assert isinstance(changed.train, Augmented)
    assert (changed.train.flip, changed.train.crop, changed.train.seed) == (True, 0, 4)
    assert torch.equal(changed.train.base.batch.x, data.train.batch.x[:5])
    assert changed.val is None


def test_more_test_sets_stay():
    data = decoy_digits()
    splits = Splits(train=data.train, val=None, test=data.test, more_tests={"more": data.val})
    changed = change_training(
        splits, lambda train: select(train, torch.arange(7)), note="Seven only."
    )
    assert changed.more_tests["more"].card == changed.card
    assert changed.more_tests["more"].digest() == data.val.digest()
