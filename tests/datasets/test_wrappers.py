import numpy as np
import pytest
import torch
from tests.datasets.miniature import WORKER_WARNINGS
from tests.reference import strategies as slow

from rightreasons.datasets import Augmented, InMemory, MaskBits, folder, load, masked_input
from rightreasons.datasets.balanced import Balanced
from rightreasons.datasets.wrappers import (
    ChangedMasks,
    MaskedInput,
    Selected,
    change_masks,
    cover,
    pack_masks,
    select,
)
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.types import Batch

pytestmark = WORKER_WARNINGS
INDICES = torch.tensor([5, 0, 3])


def halved(mask, annotated, indices):
    """Halve the masks at even indices, and mark them as not annotated."""
    even = indices % 2 == 0
    return torch.where(even.reshape(-1, 1, 1, 1), mask / 2, mask), annotated & ~even


@pytest.mark.parametrize("workers", [0, 2])
def test_masks_on_disk_change_by_their_place(pets, workers):
    base = folder(pets, mask_polarity="irrelevant", in_memory=False, workers=workers).train
    data = change_masks(base, halved, key="halved")
    assert isinstance(data, ChangedMasks)
    assert len(data) == len(base) == 6
    plain = base.take(torch.arange(6))
    rows = [torch.tensor([4, 1]), torch.tensor([2])]
    for batch, indices in zip(data.batches(rows), rows, strict=True):
        mask, annotated = halved(plain.mask[indices], plain.annotated[indices], indices)
        assert torch.equal(batch.mask, mask)
        assert torch.equal(batch.annotated, annotated)
        assert torch.equal(batch.x, plain.x[indices])
        assert torch.equal(batch.index, indices)
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


@pytest.mark.parametrize("in_memory", [True, False])
def test_samples_are_numbered_anew(pets, in_memory):
    base = folder(pets, mask_polarity="irrelevant", in_memory=in_memory, workers=2).train
    data = select(base, INDICES)
    assert isinstance(data, InMemory if in_memory else Selected)
    assert len(data) == 3
    whole = base.take(INDICES)
    rows = [torch.tensor([2, 1]), torch.tensor([0])]
    for batch, indices in zip(data.batches(rows), rows, strict=True):
        assert torch.equal(batch.index, indices)
        assert torch.equal(batch.x, whole.x[indices])
        assert torch.equal(batch.mask, whole.mask[indices])
        assert torch.equal(batch.annotated, whole.annotated[indices])
        assert torch.equal(batch.group, whole.group[indices])
    assert torch.equal(data.take(torch.tensor([1])).x, whole.x[1:2])
    assert torch.equal(data.labels, base.labels[INDICES])
    assert torch.equal(data.groups, base.groups[INDICES])
    assert data.has_masks
    assert data.card.train_group_counts == tuple(torch.bincount(data.groups, minlength=2).tolist())
    assert data.digest() not in (base.digest(), select(base, INDICES[:2]).digest())


def test_augmented_data_are_drawn_anew(pets):
    base = Augmented(folder(pets, mask_polarity="irrelevant").train, flip=True, crop=2)
    data = Selected(base, INDICES)
    rows = torch.arange(3)
    assert torch.equal(data.at_epoch(1).take(rows).x, base.at_epoch(1).take(INDICES).x)
    assert not torch.equal(data.at_epoch(1).take(rows).x, data.take(rows).x)


@pytest.mark.parametrize("size", [(3, 5), (8, 8), (1, 1)])
def test_bits_come_back(size):
    masks = (torch.rand(7, 1, *size) < 0.3).float()
    rows = pack_masks(masks)
    assert rows.nbytes == 7 * -(-size[0] * size[1] // 8)
    bits = MaskBits(rows, size=size)
    indices = torch.tensor([6, 0, 0])
    assert len(bits) == 7
    assert torch.equal(bits.at(indices), masks[indices])


def test_all_and_nothing_come_back():
    masks = torch.stack([torch.ones(1, 3, 3), torch.zeros(1, 3, 3)])
    assert torch.equal(MaskBits(pack_masks(masks), size=(3, 3)).at(torch.arange(2)), masks)


def test_soft_masks_come_back_in_steps():
    masks = torch.rand(5, 1, 4, 3)
    bits = MaskBits(pack_masks(masks, soft=True), size=(4, 3), soft=True)
    torch.testing.assert_close(bits.at(torch.arange(5)), masks, rtol=0, atol=0.5 / 255 + 1e-6)


def test_they_may_be_mapped_from_a_file(tmp_path):
    masks = (torch.rand(4, 1, 6, 6) < 0.5).float()
    np.save(tmp_path / "masks.npy", pack_masks(masks))
    rows = np.load(tmp_path / "masks.npy", mmap_mode="r")
    assert torch.equal(MaskBits(rows, size=(6, 6)).at(torch.tensor([3, 1])), masks[[3, 1]])


def test_rows_of_other_images():
    rows = pack_masks(torch.ones(2, 1, 4, 4))
    with pytest.raises(InvalidBatchError, match="Expected `rows` of 4 bytes for masks of 5x5"):
        MaskBits(rows, size=(5, 5))
    with pytest.raises(InvalidBatchError, match="but got uint8"):
        MaskBits(rows, size=(4, 4), soft=True)


@pytest.fixture
def data():
    y = torch.tensor([0, 1, 0, 1])
    x = torch.rand(4, 3, 5, 6)
    mask = torch.zeros(4, 1, 5, 6)
    return InMemory(Batch(x=x, y=y, mask=mask, group=y))


@pytest.fixture
def masks():
    return (torch.rand(4, 1, 5, 6) < 0.4).float()


def test_zero_equals_the_slow_twin(data, masks):
    expected = [
        slow.covered(image.tolist(), mask[0].tolist())
        for image, mask in zip(data.batch.x, masks, strict=True)
    ]
    assert torch.equal(cover(data.batch.x, masks), torch.tensor(expected))


@pytest.mark.parametrize("fill", ["zero", "mean", "blur"])
def test_what_is_not_covered_stays(data, masks, fill):
    x = data.batch.x
    changed = cover(x, masks, fill)
    outside = (masks == 0).expand_as(x)
    assert torch.equal(changed[outside], x[outside])
    assert not torch.equal(changed, x) or fill == "blur"
    assert torch.equal(cover(x, torch.zeros_like(masks), fill), x)


def test_all_covered(data):
    x, everything = data.batch.x, torch.ones(4, 1, 5, 6)
    assert not cover(x, everything).any()
    mean = x.mean(dim=(2, 3), keepdim=True).expand_as(x)
    torch.testing.assert_close(cover(x, everything, "mean"), mean)


def test_blurring_spreads_what_is_bright():
    x = torch.zeros(1, 1, 12, 12)
    x[..., 6, 6] = 9.0
    blurred = cover(x, torch.ones(1, 1, 12, 12), "blur")
    assert blurred[0, 0, 5:8, 5:8].flatten().tolist() == pytest.approx([1.0] * 9)
    assert float(blurred.sum()) == pytest.approx(9.0)


def test_soft_masks_cover_in_part(data):
    half = torch.full((4, 1, 5, 6), 0.5)
    torch.testing.assert_close(cover(data.batch.x, half), data.batch.x / 2)


def test_a_data_set_of_covered_images(data, masks):
    changed = masked_input(data, MaskBits(pack_masks(masks), size=(5, 6)))
    rows = torch.tensor([3, 1])
    batch = changed.take(rows)
    assert torch.equal(batch.x, cover(data.batch.x, masks)[rows])
    assert torch.equal(batch.y, data.batch.y[rows])
    assert torch.equal(batch.mask, data.batch.mask[rows])
    assert torch.equal(batch.group, data.batch.group[rows])
    assert torch.equal(changed.at_epoch(3).take(rows).x, batch.x)
    other = masked_input(data, MaskBits(pack_masks(1 - masks), size=(5, 6)))
    assert len({data.digest(), changed.digest(), other.digest()}) == 3


def test_images_are_covered_before_they_are_flipped(data, masks):
    bits = MaskBits(pack_masks(masks), size=(5, 6))
    moving = masked_input(Augmented(data, flip=True, seed=1), bits)
    assert isinstance(moving, Augmented)
    still = Augmented(MaskedInput(data, bits), flip=True, seed=1)
    rows = torch.arange(4)
    for epoch in range(3):
        seen = moving.at_epoch(epoch).take(rows).x
        assert torch.equal(seen, still.at_epoch(epoch).take(rows).x)
    assert torch.equal(moving.take(rows).x, cover(data.batch.x, masks))


def test_masks_of_other_images(data, masks):
    with pytest.raises(InvalidBatchError, match="a mask for each of 4 images .* but got 3"):
        masked_input(data, MaskBits(pack_masks(masks[:3]), size=(5, 6)))
    with pytest.raises(InvalidSettingError, match="Expected `fill` to be 'zero'"):
        masked_input(data, MaskBits(pack_masks(masks), size=(5, 6)), fill="white")


def test_each_epoch_has_as_many_samples_of_every_group():
    data = load("decoy_digits", balance="groups", seed=1)
    train = data.train
    assert torch.equal(train.take(torch.arange(9)).index, torch.arange(9))  # without an epoch
    first, second = (train.at_epoch(epoch) for epoch in (0, 1))
    assert (
        torch.bincount(first.groups).tolist() == [100] * 10 == torch.bincount(first.labels).tolist()
    )
    assert not torch.equal(first.places, second.places)
    assert torch.equal(first.places, train.at_epoch(0).places)
    rows = torch.tensor([5, 900])
    batch = first.take(rows)
    assert torch.equal(batch.index, first.places[rows]) and torch.equal(batch.y, first.labels[rows])
    assert len(first) == len(train) and train.digest() != train.base.digest()


def test_a_small_group_comes_several_times_each_sample_as_often():
    batch = Batch(
        x=torch.rand(12, 3),
        y=torch.tensor([0] * 10 + [1] * 2),
        group=torch.tensor([0] * 10 + [1] * 2),
    )
    drawn = Balanced(InMemory(batch), "classes", seed=0).at_epoch(3)
    assert torch.bincount(drawn.places).tolist()[10:] == [3, 3]
    assert max(torch.bincount(drawn.places).tolist()[:10]) == 1
    with pytest.raises(InvalidSettingError, match="Expected data with groups to balance them"):
        Balanced(InMemory(batch.replace(group=None)), "groups", seed=0)
