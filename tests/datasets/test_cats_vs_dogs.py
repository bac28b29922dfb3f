import pytest
from tests.datasets.miniature import pet_files

from rightreasons.datasets import cats_vs_dogs
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError


@pytest.mark.parametrize("layout", ["microsoft", "folders", "kaggle"])
def test_every_layout(tmp_path, layout):
    pet_files(tmp_path, layout=layout)
    data = cats_vs_dogs(tmp_path, size=8)
    assert data.card.classes == ("cat", "dog")
    assert (len(data.train), len(data.val), len(data.test)) == (14, 2, 4)
    for part in (data.train, data.val, data.test):
        assert part.labels.float().mean() == 0.5
        means = part.batch.x.mean(dim=(1, 2, 3))
        assert ((means > 0.5).long() == part.labels).all()  # dogs are bright here


def test_files_of_no_bytes_are_left_out(tmp_path):
    pet_files(tmp_path)
    (tmp_path / "PetImages" / "Cat" / "666.jpg").write_bytes(b"")
    assert len(cats_vs_dogs(tmp_path, size=8).train) == 14


def test_damaged_files_are_named(tmp_path):
    pet_files(tmp_path)
    (tmp_path / "PetImages" / "Dog" / "11702.jpg").write_bytes(b"no image")
    with pytest.raises(DatasetCorruptError, match="11702.jpg"):
        cats_vs_dogs(tmp_path, size=8)


def test_what_is_not_there(tmp_path):
    with pytest.raises(DatasetNotFoundError, match="but found 0 cats and 0 dogs"):
        cats_vs_dogs(tmp_path)
