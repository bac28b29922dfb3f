import pytest
import torch

from rightreasons.datasets import InMemory, folder
from rightreasons.datasets.wrappers import ChangedMasks, change_masks
from rightreasons.types import Batch

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


def halved(mask, annotated, places):
    """What a mask becomes depends on its place: halved at even ones, and not annotated."""
    even = places % 2 == 0
    return torch.where(even.reshape(-1, 1, 1, 1), mask / 2, mask), annotated & ~even


@pytest.mark.parametrize("workers", [0, 2])
def test_masks_on_disk_change_by_their_place(pets, workers):
    base = folder(pets, mask_polarity="irrelevant", in_memory=False, workers=workers).train
    data = change_masks(base, halved, key="halved")
    assert isinstance(data, ChangedMasks)
    assert len(data) == len(base) == 6
    plain = base.take(torch.arange(6))
    rows = [torch.tensor([4, 1]), torch.tensor([2])]
    for batch, places in zip(data.batches(rows), rows, strict=True):
        mask, annotated = halved(plain.mask[places], plain.annotated[places], places)
        assert torch.equal(batch.mask, mask)
        assert torch.equal(batch.annotated, annotated)
        assert torch.equal(batch.x, plain.x[places])
        assert torch.equal(batch.index, places)
    taken = data.at_epoch(3).take(torch.tensor([4]))
    assert torch.equal(taken.mask, plain.mask[4:5] / 2)
    assert torch.equal(data.labels, base.labels)
    assert torch.equal(data.groups, base.groups)
    assert data.has_masks
    assert data.digest() not in (base.digest(), change_masks(base, halved, key="other").digest())


def test_masks_in_memory_change_at_once(pets, monkeypatch):
    monkeypatch.setattr("rightreasons.datasets.wrappers.CHUNK", 4)
    base = folder(pets, mask_polarity="irrelevant").train
    data = change_masks(base, halved, key="halved")
    assert isinstance(data, InMemory)
    mask, annotated = halved(base.batch.mask, base.batch.annotated, torch.arange(6))
    assert torch.equal(data.batch.mask, mask)
    assert torch.equal(data.batch.annotated, annotated)
    assert data.digest() != base.digest()


def test_data_without_masks_stay_as_they_are():
    base = InMemory(Batch(x=torch.rand(3, 1, 2, 2), y=torch.tensor([0, 1, 0])))
    data = change_masks(base, halved, key="halved")
    assert data.take(torch.tensor([0])).mask is None
    assert not data.has_masks
