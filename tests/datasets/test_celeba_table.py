import pytest

from rightreasons.datasets.sets.celeba_hair import read_celeba_column
from rightreasons.errors import DatasetCorruptError


def test_all_forms_of_the_tables(tmp_path):
    contents = {
        "a.csv": "\ufeffimage_id,Bald,Male\n1.jpg,-1,1\n2.jpg,1,-1\n",
        "a.txt": "2\nBald Male\n1.jpg -1  1\n2.jpg  1 -1\n",
    }
    for name, text in contents.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        found = read_celeba_column(tmp_path / name, ["Male", "Bald"])
        assert found == {"1.jpg": [1, -1], "2.jpg": [-1, 1]}
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
