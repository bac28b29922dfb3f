import pytest
import torch
from tests.datasets.miniature import waterbird_archive, waterbird_files

from rightreasons.datasets import Augmented, waterbirds
from rightreasons.datasets.images.stream import ImageStream
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError


@pytest.mark.parametrize(
    "folder",
    [".", "waterbirds_v1.0", "data/waterbird_complete95_forest2water2"],
)
def test_official_splits_and_groups(tmp_path, folder):
    waterbird_files(tmp_path, folder=folder)
    data = waterbirds(tmp_path, size=8)
    assert [len(part) for part in (data.train, data.val, data.test)] == [12, 4, 8]
    assert data.card.classes == ("landbird", "waterbird")
    assert data.card.groups[1] == "landbird, water"
    assert torch.equal(data.train.groups // 2, data.train.labels)
    assert sum(data.card.train_group_counts) == 12
    assert data.card.shape == (3, 8, 8) and not data.train.has_masks
    numbers = [number for number in range(24) if number % 6 < 3]
    assert data.train.groups.tolist() == [2 * (n % 2) + n // 2 % 2 for n in numbers]


def test_images_may_stay_on_disk_and_be_augmented(tmp_path):
    waterbird_files(tmp_path)
    data = waterbirds(tmp_path, size=8, in_memory=False, workers=0)
    assert isinstance(data.train, ImageStream)
    assert isinstance(waterbirds(tmp_path, size=8, flip=True).train, Augmented)


def test_mistakes_are_named(tmp_path):
    words = "Expected Waterbirds in .*, but found no metadata.csv there or in waterbirds_v1.0"
    with pytest.raises(DatasetNotFoundError, match=words):
        waterbirds(tmp_path)
    waterbird_files(tmp_path)
    with pytest.raises(InvalidSettingError, match="Expected `flip`"):
        waterbirds(tmp_path, flip=1)
    (tmp_path / "waterbirds_v1.0" / "000.Bird" / "3.png").unlink()
    words = "as its metadata.csv says, but got 1 problem:\n  row 5, 000.Bird/3.png"
    with pytest.raises(DatasetCorruptError, match=words):
        waterbirds(tmp_path, size=8)
    table = tmp_path / "waterbirds_v1.0" / "metadata.csv"
    table.write_text("img_filename,y,split\na.jpg,0,0\nb.jpg,1,2\n")
    with pytest.raises(DatasetCorruptError, match="and the groups none. Is it Waterbirds"):
        waterbirds(tmp_path)


def test_the_archive_has_masks_of_the_background(tmp_path):
    waterbird_archive(tmp_path)
    data = waterbirds(tmp_path, size=8, flip=True)
    assert isinstance(data.train, Augmented)
    batch = data.train.take(torch.arange(12))
    assert not batch.mask[:, :, :4].any() and batch.mask[:, :, 4:].all()
    assert batch.group.tolist() == [0, 2, 1, 3] * 3
    assert torch.equal(batch.group // 2, batch.y)
    assert (len(data.val), len(data.test)) == (6, 6)
    waterbird_files(tmp_path)
    assert not waterbirds(tmp_path, size=8).train.has_masks
