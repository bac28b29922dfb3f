import pytest
import torch
from tests.reference import strategies as slow

from rightreasons.datasets import Augmented, InMemory, MaskBits, masked_input
from rightreasons.datasets.wrappers import MaskedInput, cover, pack_masks
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.types import Batch


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
