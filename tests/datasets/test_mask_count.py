import pytest
import torch

from rightreasons.datasets import Augmented, InMemory, Splits, decoy_digits, folder, mask_count
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Batch


def masked_at(places, size=12):
    """Data of two classes, with masks that are empty but at some places."""
    mask = torch.zeros(size, 2)
    mask[places, 1] = 0.5
    x, y = torch.arange(2.0 * size).reshape(size, 2), torch.arange(size) % 2
    data = InMemory(Batch(x=x, y=y, mask=mask))
    return Splits(train=data, val=None, test=data)


def kept(splits):
    return set(splits.train.batch.annotated.nonzero().flatten().tolist())


def test_only_masks_that_are_not_empty_count():
    data = masked_at([1, 4, 5, 8, 9, 11])
    few = mask_count(data, num_masks=3)
    places = sorted(kept(few))
    assert len(places) == 3
    assert set(places) <= {1, 4, 5, 8, 9, 11}
    assert torch.equal(few.train.batch.mask[places], data.train.batch.mask[places])
    assert int(few.train.batch.mask.any(dim=1).sum()) == 3
    assert torch.equal(few.train.batch.x, data.train.batch.x)
    assert few.test.batch is data.test.batch
    assert data.train.batch.annotated.all()
    assert "3 training masks" in few.card.description


def test_fewer_are_among_more_stratified_by_label_and_seeds_differ():
    data = decoy_digits()
    draws = [kept(mask_count(data, num_masks=number)) for number in (0, 20, 200)]
    assert [len(draw) for draw in draws] == [0, 20, 200]
    assert all(small <= large for small, large in zip(draws, draws[1:], strict=False))
    assert kept(mask_count(data, num_masks=20, seed=1)) != draws[1]
    counts = torch.bincount(data.train.labels[sorted(draws[1])], minlength=10)
    assert counts.max() <= 3


def test_images_on_disk_are_treated_as_those_in_memory(pets):
    memory, disk = (
        mask_count(
            folder(pets, mask_polarity="irrelevant", in_memory=kind, workers=0, flip=True),
            num_masks=2,
        )
        for kind in (True, False)
    )
    assert isinstance(disk.train, Augmented)
    rows = torch.arange(len(memory.train))
    one, other = (data.train.take(rows) for data in (memory, disk))
    assert torch.equal(one.mask, other.mask)
    assert torch.equal(one.annotated, other.annotated)
    assert int(one.annotated.sum()) == 2


def test_data_without_masks():
    data = InMemory(Batch(x=torch.rand(2, 2), y=torch.tensor([0, 1])))
    with pytest.raises(InvalidSettingError, match="with masks, but 'data' has none in training"):
        mask_count(Splits(train=data, val=None, test=data), num_masks=1)


def test_bad_numbers():
    with pytest.raises(InvalidSettingError, match="at most 2, the training masks of 'data' that a"):
        mask_count(masked_at([1, 2]), num_masks=3)
    with pytest.raises(InvalidSettingError, match="Expected `num_masks` to be a whole number"):
        mask_count(masked_at([1, 2]), num_masks=-1)
