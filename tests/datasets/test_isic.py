import pytest
import torch
from tests.datasets.miniature import isic_files

from rightreasons.datasets import isic
from rightreasons.datasets.images.stream import ImageStream
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError


@pytest.fixture
def isic_dir(tmp_path):
    isic_files(tmp_path)
    return tmp_path


def test_three_groups_in_every_part(isic_dir):
    data = isic(isic_dir, size=12)
    assert data.card.groups == ("cancer", "no cancer, no patch", "no cancer, patch")
    for part, count in ((data.train, 14), (data.val, 2), (data.test, 4)):
        assert torch.bincount(part.groups).tolist() == [count] * 3
        assert torch.equal(part.labels, (part.groups == 0).long())
    assert data.card.train_group_counts == (14, 14, 14)


def test_masks_are_the_patches_without_what_jpeg_blurred(isic_dir):
    batch = isic(isic_dir, size=12).train.batch
    patched = batch.group == 2
    expected = torch.zeros(12, 12)
    expected[:8, :8] = 1
    assert (batch.mask[patched] == expected).all()
    assert not batch.mask[~patched].any()
    assert torch.equal(batch.annotated, patched)


def test_no_image_is_in_two_parts_and_the_seed_deals_them(isic_dir):
    first, other = isic(isic_dir, size=12), isic(isic_dir, size=12, seed=1)
    images = [
        x.numpy().tobytes() for part in (first.train, first.val, first.test) for x in part.batch.x
    ]
    assert len(images) == len(set(images)) == 60
    assert first.digest() != other.digest()
    assert isic(isic_dir, size=12, validation_share=0).val is None


def test_on_disk_as_in_memory(isic_dir):
    memory = isic(isic_dir, size=6)
    disk = isic(isic_dir, size=6, in_memory=False, workers=0)
    assert isinstance(disk.train, ImageStream)
    rows = torch.arange(len(memory.train))
    assert torch.equal(disk.train.take(rows).x, memory.train.take(rows).x)
    assert torch.equal(disk.train.take(rows).mask, memory.train.take(rows).mask)


def test_the_layout_is_told(tmp_path):
    words = (
        "processed/cancer, processed/no_cancer, processed/patch_no_cancer_again, and masks in se"
    )
    with pytest.raises(DatasetNotFoundError, match=f"{words}.*found 0, 0, 0 images"):
        isic(tmp_path)


def test_missing_masks_are_listed(isic_dir):
    (isic_dir / "segmentation" / "ISIC_003.jpg").unlink()
    words = (
        "as ISIC has them, .*1 problem:\n  processed/patch_no_cancer_again/ISIC_003.png: has no m"
    )
    with pytest.raises(DatasetCorruptError, match=words):
        isic(isic_dir, size=12)
