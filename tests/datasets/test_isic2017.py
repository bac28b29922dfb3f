import pytest
import torch
from tests.datasets.miniature import isic2017_archive, isic2017_files

from rightreasons.datasets import isic2017
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError

TABLE = "ISIC-2017_Training_Part3_GroundTruth.csv"


@pytest.fixture
def root(tmp_path):
    isic2017_files(tmp_path)
    return tmp_path


def test_the_mask_is_outside_the_lesion_and_parts_are_the_official_ones(root):
    data = isic2017(root, size=12)
    assert (len(data.train), len(data.val), len(data.test)) == (9, 6, 6)
    batch = data.train.take(torch.arange(9))
    assert not batch.mask[:, :, :6].any()
    assert batch.mask[:, :, 6:].all()
    assert batch.y.tolist() == [0, 1, 2] * 3
    assert torch.equal(batch.group, batch.y)
    assert data.card.classes == ("nevus", "melanoma", "seborrheic keratosis")
    assert data.card.train_group_counts == (3, 3, 3)


def test_flipped_images_take_their_masks_along(root):
    data = isic2017(root, size=12, flip=True)
    first, later = (data.train.at_epoch(epoch).take(torch.arange(9)).x for epoch in (0, 1))
    assert not torch.equal(first, later)


def test_files_that_are_missing_or_damaged(root, tmp_path_factory):
    with pytest.raises(DatasetNotFoundError, match=f"found no {TABLE}, no ISIC-2017_Validation"):
        isic2017(tmp_path_factory.mktemp("empty"))
    (root / "ISIC-2017_Test_v2_Data" / "ISIC_Test_v2001.jpg").unlink()
    with pytest.raises(DatasetCorruptError, match="1 problem.*\n.*ISIC_Test_v2001.jpg: no such"):
        isic2017(root, size=12)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("image_id,melanoma\nISIC_1,0.0\n", "KeyError.*seborrheic"),
        ("image_id,melanoma,seborrheic_keratosis\nISIC_1,1.0,1.0\n", "ISIC_1 has 1 and 1"),
        ("image_id,melanoma,seborrheic_keratosis\nISIC_1,yes,0\n", "could not convert"),
    ],
)
def test_tables_that_are_something_else(root, content, words):
    (root / TABLE).write_text(content)
    with pytest.raises(DatasetCorruptError, match=f"to be a table with the columns.*{words}"):
        isic2017(root)


def test_the_archive_has_lesions_without_an_outline(tmp_path):
    isic2017_archive(tmp_path)
    data = isic2017(tmp_path, size=16)
    assert (len(data.train), len(data.val), len(data.test)) == (24, 12, 12)
    batch = data.train.take(torch.arange(24))
    assert batch.y.tolist() == [0, 1, 2] * 8
    assert batch.annotated.tolist() == [True] * 23 + [False]
    assert not batch.mask[:, :, :8].any() and not batch.mask[23].any()
    assert batch.mask[:23, :, 8:].all()
