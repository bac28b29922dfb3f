import numpy as np
import pytest
import torch
from PIL import Image

import rightreasons as rr
from rightreasons.annotators.mask_file import file_names, with_mask_files
from rightreasons.datasets import Augmented, InMemory, Selected
from rightreasons.datasets.remasked import Remasked
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError


@pytest.fixture
def masks(tmp_path):
    """White in the upper half, for samples 3 and 5."""
    pixels = np.zeros((16, 16), dtype=np.uint8)
    pixels[:8] = 255
    for name in ("3", "5", "unknown"):
        Image.fromarray(pixels).save(tmp_path / f"{name}.png")
    return tmp_path


@pytest.mark.parametrize(
    ("polarity", "inside"), [("irrelevant", slice(0, 4)), ("relevant", slice(4, 8))]
)
def test_masks_called_as_places(make_squares, masks, polarity, inside):
    data = make_squares()
    found = with_mask_files(Augmented(data, flip=True), masks, polarity=polarity)
    batch = found.take(torch.arange(24))
    assert batch.annotated.nonzero().flatten().tolist() == [3, 5]
    assert batch.guided.nonzero().flatten().tolist() == [3, 5]
    expected = torch.zeros(8, 8)
    expected[inside] = 1
    assert torch.equal(batch.mask[5, 0], expected)
    assert found.has_masks and found.digest() != data.digest()
    assert torch.equal(found.at_epoch(1).take(torch.tensor([5])).mask, batch.mask[5:6])


def test_masks_move_with_augmented_images(make_squares, masks):
    x = torch.zeros(24, 1, 8, 8)
    x[:, :, :4] = 1  # as the masks
    data = Augmented(InMemory(make_squares().batch.replace(x=x)), crop=2, seed=3)
    same = Remasked(data, lambda mask, annotated, _: (mask, annotated), key="same")
    for given in (data, same):
        found = with_mask_files(given, masks, polarity="irrelevant")
        seen = found.at_epoch(1).take(torch.tensor([3, 5]))
        assert torch.equal(seen.mask, seen.x)
        assert not torch.equal(seen.x, x[:2])


def test_masks_called_as_files(tmp_path):
    rows = ["file,label,split"]
    for number, split in enumerate(["train"] * 3 + ["test"] * 2):
        Image.fromarray(np.full((8, 8, 3), number, dtype=np.uint8)).save(
            tmp_path / f"i{number}.png"
        )
        rows.append(f"i{number}.png,{'ab'[number % 2]},{split}")
    (tmp_path / "data.csv").write_text("\n".join(rows))
    data = rr.datasets.folder(tmp_path, in_memory=False, workers=0).train
    assert file_names(data) == ["i0.png", "i1.png", "i2.png"]
    assert file_names(Selected(Augmented(data), torch.tensor([2]))) == ["i2.png"]
    (tmp_path / "masks").mkdir()
    Image.fromarray(np.full((8, 8), 255, dtype=np.uint8)).save(tmp_path / "masks" / "i1.png")
    found = with_mask_files(data, tmp_path / "masks", polarity="irrelevant")
    assert found.take(torch.arange(3)).mask.mean(dim=(1, 2, 3)).tolist() == [0, 1, 0]


def test_images_in_memory_have_no_files(make_squares):
    assert file_names(make_squares()) is None
    assert file_names(Selected(make_squares(), torch.tensor([1]))) is None


def test_problems_are_told(make_squares, masks, tmp_path):
    data = make_squares()
    with pytest.raises(InvalidSettingError, match="Expected `polarity` to be 'irrelevant' or 'rel"):
        with_mask_files(data, masks, polarity="white")
    with pytest.raises(DatasetNotFoundError, match=r"such as 0\.png, but there is none"):
        with_mask_files(data, tmp_path / "nowhere", polarity="relevant")
    (masks / "3.png").write_bytes(b"no image")
    with pytest.raises(DatasetCorruptError, match=r"Expected a mask in .*3\.png, but it"):
        with_mask_files(data, masks, polarity="relevant")
    table = InMemory(rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1])))
    with pytest.raises(InvalidSettingError, match=r"Expected images of shape \(C, H, W\) to read"):
        with_mask_files(table, masks, polarity="relevant")
