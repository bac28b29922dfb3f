import copy
import pickle
from dataclasses import replace

import pytest
import torch

import rightreasons as rr
from rightreasons.datasets import Card, InMemory, Splits
from rightreasons.datasets.dataset import TransformedDataset
from rightreasons.errors import InvalidBatchError
from rightreasons.types import Batch

X, Y = torch.rand(4, 3), torch.tensor([0, 1, 0, 1])


def test_rows_are_sliced_with_their_places():
    data = InMemory(Batch(x=X, y=Y, mask=X.round(), group=Y))
    rows = torch.tensor([3, 0])
    batch = data.take(rows)
    assert torch.equal(batch.x, X[rows])
    assert torch.equal(batch.mask, X[rows].round())
    assert torch.equal(batch.index, rows)
    assert [len(batch) for batch in data.batches([rows, rows[:1]])] == [2, 1]
    assert data.at_epoch(3) is data


def test_the_card_is_filled_from_the_data():
    data = InMemory(Batch(x=X, y=Y, group=torch.tensor([-1, 2, 0, 0])))
    assert data.card.classes == ("0", "1")
    assert data.card.groups == ("0", "1", "2")
    assert data.card.shape == (3,)
    named = InMemory(Batch(x=X, y=Y), Card(classes=("no", "yes", "maybe")))
    assert named.card.classes == ("no", "yes", "maybe")
    assert named.groups is None
    assert not named.has_masks


def test_labels_must_have_names():
    with pytest.raises(InvalidBatchError, match="Expected labels from 0 to 0, for the 1 classes"):
        InMemory(Batch(x=X, y=Y), Card(classes=("no",)))


def test_no_samples():
    with pytest.raises(InvalidBatchError, match="Expected at least one sample"):
        InMemory(Batch(x=X[:0], y=Y[:0]))


def test_the_digest_changes_with_every_part():
    batch = Batch(x=X, y=Y, mask=X.round(), group=Y)
    changed = [
        batch.replace(x=X + 1),
        batch.replace(y=1 - Y),
        batch.replace(mask=1 - X.round()),
        batch.replace(group=1 - Y),
        batch.replace(annotated=torch.tensor([True, True, True, False])),
    ]
    digests = {InMemory(one).digest() for one in (batch, *changed)}
    assert len(digests) == 6
    assert InMemory(batch.replace(index=torch.arange(4))).digest() in digests


def test_splits_share_a_card_and_hash_all_parts():
    first, second = InMemory(Batch(x=X, y=Y)), InMemory(Batch(x=X + 1, y=Y))
    splits = Splits(train=first, val=None, test=second)
    assert splits.card is first.card
    assert splits.digest() == Splits(first, None, second).digest()
    assert splits.digest() != Splits(first, second, second).digest()


def test_more_test_sets_have_names_of_their_own():
    data = InMemory(Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1])))
    plain = Splits(train=data, val=None, test=data)
    more = Splits(train=data, val=None, test=data, more_tests={"biased": data})
    renamed = Splits(train=data, val=None, test=data, more_tests={"original": data})
    assert len({splits.digest() for splits in (plain, more, renamed)}) == 3
    with pytest.raises(InvalidBatchError, match="Expected names of `more_tests` other than"):
        Splits(train=data, val=None, test=data, more_tests={"validation": data})


class Numbered(TransformedDataset):
    """Puts each sample's place into its features."""

    def transform(self, batch, indices):
        return batch.replace(x=indices[:, None].float().expand_as(batch.x))

    def digest(self):
        return self.base.digest()


def test_samples_change_and_all_else_stays():
    base = InMemory(
        rr.Batch(
            x=torch.zeros(5, 2),
            y=torch.tensor([0, 1, 0, 1, 0]),
            mask=torch.ones(5, 2),
            group=torch.tensor([0, 0, 1, 1, 1]),
        )
    )
    data = Numbered(base)
    assert data.take(torch.tensor([3, 1])).x.tolist() == [[3, 3], [1, 1]]
    batches = list(data.batches([torch.tensor([4]), torch.tensor([0, 2])]))
    assert [batch.x[:, 0].tolist() for batch in batches] == [[4], [0, 2]]
    assert len(data) == 5
    assert data.labels is base.labels
    assert data.groups is base.groups
    assert data.has_masks
    assert data.card == base.card


@pytest.mark.parametrize(
    ("groups", "word"),
    [
        (("a", "a/n"), "a/n"),
        (("a/low", "a"), "a/low"),
        (("b", "worst/high"), "worst/high"),
        (("a", "b", "a"), "a"),
    ],
)
def test_groups_whose_values_have_one_name_are_refused(groups, word):
    with pytest.raises(InvalidBatchError, match=f"two values called '{word}'. Rename the group"):
        Card(groups=groups)


def test_a_card_states_its_range_if_it_was_given():
    assert not Card().states_range and not Card(name="mine").states_range
    assert Card(valid_range=(0.0, 1.0)).states_range
    card = Card(name="mine")
    for copied in (pickle.loads(pickle.dumps(card)), copy.deepcopy(card), replace(card, name="b")):
        assert not copied.states_range and copied.valid_range == (0.0, 1.0)
    assert rr.datasets.decoy_digits(seed=0).card.states_range
