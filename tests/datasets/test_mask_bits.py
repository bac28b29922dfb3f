import numpy as np
import pytest
import torch

from rightreasons.datasets import MaskBits
from rightreasons.datasets.wrappers import pack_masks
from rightreasons.errors import InvalidBatchError


@pytest.mark.parametrize("size", [(3, 5), (8, 8), (1, 1)])
def test_bits_come_back(size):
    masks = (torch.rand(7, 1, *size) < 0.3).float()
    rows = pack_masks(masks)
    assert rows.nbytes == 7 * -(-size[0] * size[1] // 8)
    bits = MaskBits(rows, size=size)
    places = torch.tensor([6, 0, 0])
    assert len(bits) == 7
    assert torch.equal(bits.at(places), masks[places])


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
