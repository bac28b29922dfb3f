import pytest
import torch

from rightreasons.datasets import (
    Augmented,
    InMemory,
    Splits,
    decoy_digits,
    folder,
    mask_fraction,
)
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Batch


def test_a_stratified_share_of_the_masks_stays():
    data = decoy_digits(seed=1)
    few = mask_fraction(data, fraction=0.2, seed=3)
    kept, batch, before = few.train.batch.annotated, few.train.batch, data.train.batch
    assert int(kept.sum()) == 200
    assert torch.equal(batch.mask[kept], before.mask[kept])
    assert not batch.mask[~kept].any()
    assert torch.equal(batch.x, before.x)
    shares = torch.bincount(batch.y[kept]) / torch.bincount(batch.y)
    assert (shares - 0.2).abs().max() < 0.02
    assert (few.val.digest(), few.test.digest()) == (data.val.digest(), data.test.digest())
    assert before.annotated.all()
    assert "20% of the training masks" in few.card.description


def test_the_data_are_cut_to_the_share():
    data = decoy_digits(seed=1)
    few, masks = (
        mask_fraction(data, fraction=0.3, keep=keep, seed=3) for keep in ("data", "masks")
    )
    kept = masks.train.batch.annotated
    assert torch.equal(few.train.batch.x, data.train.batch.x[kept])
    assert torch.equal(few.train.batch.mask, data.train.batch.mask[kept])
    assert few.train.batch.annotated.all()
    assert sum(few.card.train_group_counts) == 300 == len(few.train)
    assert few.test.card == few.card


def test_smaller_shares_are_nested_and_seeds_differ():
    data = decoy_digits()

    def kept(fraction, seed=0):
        annotated = mask_fraction(data, fraction=fraction, seed=seed).train.batch.annotated
        return set(annotated.nonzero().flatten().tolist())

    shares = [kept(fraction) for fraction in (0, 0.04, 0.2, 0.4, 1)]
    assert [len(share) for share in shares] == [0, 40, 200, 400, 1000]
    assert all(small <= large for small, large in zip(shares, shares[1:], strict=False))
    assert kept(0.2) == kept(0.2) != kept(0.2, seed=1)


@pytest.mark.parametrize("keep", ["masks", "data"])
def test_images_on_disk_are_treated_as_those_in_memory(pets, keep):
    memory, disk = (
        mask_fraction(
            folder(pets, mask_polarity="irrelevant", in_memory=kind, workers=0, flip=True),
            fraction=0.5,
            keep=keep,
        )
        for kind in (True, False)
    )
    assert isinstance(disk.train, Augmented)
    rows = torch.arange(len(memory.train))
    for epoch in (0, 1):
        one, other = (data.train.at_epoch(epoch).take(rows) for data in (memory, disk))
        assert torch.equal(one.x, other.x)
        assert torch.equal(one.mask, other.mask)
        assert torch.equal(one.annotated, other.annotated)
    assert len(memory.train) == len(disk.train) == (3 if keep == "data" else 6)


def unmasked():
    data = InMemory(Batch(x=torch.rand(4, 2), y=torch.tensor([0, 1, 0, 1])))
    return Splits(train=data, val=None, test=data)


def test_data_without_masks_can_be_cut_only():
    assert len(mask_fraction(unmasked(), fraction=0.5, keep="data").train) == 2
    with pytest.raises(InvalidSettingError, match="with masks, but 'data' has none in training"):
        mask_fraction(unmasked(), fraction=0.5)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"fraction": 1.5}, "Expected `fraction` to be a number from 0 to 1, but got 1.5"),
        ({"fraction": 0.1, "keep": "all"}, "Expected `keep` to be 'masks' or 'data'"),
        ({"fraction": 0.1, "keep": "data"}, "to leave training samples, but 0.1 of 4 is none"),
        ({"fraction": 0.5, "seed": -1}, "Expected `seed` to be a whole number from 0"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        mask_fraction(unmasked(), **settings)
