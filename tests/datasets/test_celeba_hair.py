import pytest
import torch
from tests.datasets.miniature import celeba_archive, celeba_files

from rightreasons.datasets import Augmented, celeba_hair
from rightreasons.datasets.images.stream import ImageStream
from rightreasons.datasets.sets.celeba_hair import read_celeba_column
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError


@pytest.mark.parametrize(
    ("folder", "text"), [("celebA_v1.0", False), ("data", False), ("celeba", True), (".", True)]
)
def test_official_splits_and_groups(tmp_path, folder, text):
    celeba_files(tmp_path, folder=folder, text=text)
    data = celeba_hair(tmp_path, size=8)
    assert [len(part) for part in (data.train, data.val, data.test)] == [12, 4, 8]
    assert data.card.classes == ("dark", "blond")
    assert data.card.groups[3] == "blond, male"
    numbers = [number for number in range(24) if number % 6 < 3]
    assert data.train.groups.tolist() == [2 * (n % 2) + n // 2 % 2 for n in numbers]
    assert torch.equal(data.train.groups // 2, data.train.labels)
    assert not data.train.has_masks and data.card.shape == (3, 8, 8)


def test_the_table_of_group_dro(tmp_path):
    celeba_files(tmp_path, folder="data")
    expected = celeba_hair(tmp_path, size=8)
    folder = tmp_path / "data"
    faces = read_celeba_column(folder / "list_attr_celeba.csv", ["Blond_Hair", "Male"])
    parts = read_celeba_column(folder / "list_eval_partition.csv", ["partition"])
    for table in folder.glob("list_*"):
        table.unlink()
    rows = ["img_id,img_filename,y,split,place"]
    for number, (name, (blond, male)) in enumerate(faces.items()):
        rows.append(f"{number},{name},{int(blond == 1)},{parts[name][0]},{int(male == 1)}")
    (folder / "metadata.csv").write_text("\n".join(rows))
    data = celeba_hair(tmp_path, size=8)
    assert data.card.groups == expected.card.groups and data.digest() == expected.digest()
    (folder / "metadata.csv").write_text("\n".join(rows).replace("000001.png,0", "000001.png,7"))
    with pytest.raises(DatasetCorruptError, match="labels `y` and sexes `place` that are 0 or 1"):
        celeba_hair(tmp_path, size=8)


def test_images_may_stay_on_disk_and_be_augmented(tmp_path):
    celeba_files(tmp_path)
    data = celeba_hair(tmp_path, size=8, in_memory=False, workers=0)
    assert isinstance(data.train, ImageStream)
    assert isinstance(celeba_hair(tmp_path, size=8, crop=1).train, Augmented)


def test_mistakes_are_named(tmp_path):
    words = "Expected CelebA in .*, but found no list_attr_celeba and list_eval_partition"
    with pytest.raises(DatasetNotFoundError, match=words):
        celeba_hair(tmp_path)
    celeba_files(tmp_path)
    with pytest.raises(InvalidSettingError, match="Expected `crop`"):
        celeba_hair(tmp_path, crop=-1)
    folder = tmp_path / "celebA_v1.0"
    (folder / "img_align_celeba" / "000004.png").unlink()
    words = "as list_attr_celeba.csv and list_eval_partition.csv say.*\n  row 4, img_align_celeba/0"
    with pytest.raises(DatasetCorruptError, match=words):
        celeba_hair(tmp_path, size=8)
    (folder / "list_eval_partition.csv").write_text("image_id,partition\n000001.png,0\n")
    words = "row 2, 000002.png: has the partition nowhere(.|\n)*no face is in the part 'test'"
    with pytest.raises(DatasetCorruptError, match=words):
        celeba_hair(tmp_path, size=8)


def test_all_forms_of_the_tables(tmp_path):
    contents = {
        "a.csv": "\ufeffimage_id,Bald,Male\n1.jpg,-1,1\n2.jpg,1,-1\n",
        "a.txt": "2\nBald Male\n1.jpg -1  1\n2.jpg  1 -1\n",
    }
    for name, text in contents.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        columns = read_celeba_column(tmp_path / name, ["Male", "Bald"])
        assert columns == {"1.jpg": [1, -1], "2.jpg": [-1, 1]}
    (tmp_path / "b.txt").write_text("1.jpg 0\n2.jpg 2\n")
    assert read_celeba_column(tmp_path / "b.txt", ["partition"]) == {"1.jpg": [0], "2.jpg": [2]}


@pytest.mark.parametrize(
    "text",
    ["", "image_id,Male\n", "image_id,Bald\n1.jpg,1\n", "image_id,Male\n1.jpg,yes\n", 'a,"b\n'],
)
def test_damaged_tables_are_named(tmp_path, text):
    path = tmp_path / "list_attr_celeba.csv"
    path.write_text(text)
    words = "list_attr_celeba.csv to be CelebA's table with whole numbers in Male, but got"
    with pytest.raises(DatasetCorruptError, match=words):
        read_celeba_column(path, ["Male"])


def test_the_archive(tmp_path):
    celeba_archive(tmp_path)
    data = celeba_hair(tmp_path, size=16)
    assert [len(part) for part in (data.train, data.val, data.test)] == [12, 6, 6]
    assert data.train.groups.tolist() == [0, 2, 1, 3] * 3
    assert data.card.train_group_counts == (3, 3, 3, 3)
    assert not data.train.has_masks


@pytest.mark.parametrize("write", [celeba_archive, celeba_files])
def test_one_ellipse_covers_all_faces(tmp_path, write):
    write(tmp_path)
    data = celeba_hair(tmp_path, size=64, mask="face", flip=True)
    batch = data.train.at_epoch(0).take(torch.arange(12))
    assert torch.equal(batch.mask, batch.mask[:1].expand_as(batch.mask))
    assert torch.equal(batch.mask, batch.mask.flip(3))
    columns, rows = (batch.mask[0, 0].any(dim=dim).nonzero() for dim in (0, 1))
    assert len(columns) == pytest.approx(64 * 72 / 178, abs=1.5)
    height, top = (178, 20) if write is celeba_archive else (218, 0)
    assert len(rows) == pytest.approx(64 * 92 / height, abs=1.5)
    middle = (int(rows.min()) + int(rows.max()) + 1) / 2
    assert middle == pytest.approx(64 * (130 - top) / height, abs=1)
    plain = celeba_hair(tmp_path, size=64)
    assert data.digest() != plain.digest()
    assert torch.equal(data.test.take(torch.arange(4)).x, plain.test.take(torch.arange(4)).x)
