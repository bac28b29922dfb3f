import pytest
from tests.datasets.miniature import salient_files

from rightreasons.datasets.sets.salient_imagenet import salient_images
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError


@pytest.fixture
def salient_dir(tmp_path):
    salient_files(tmp_path)
    return tmp_path


def test_three_votes_make_a_feature_spurious(salient_dir):
    images, wordnet = salient_images(salient_dir, [142, 306])
    assert wordnet == ["n02033041", "n02174001"]
    assert [image.label for image in images] == [0] * 18 + [1] * 18
    for image in images:
        number = int(image.file.stem.split("_")[1])
        assert image.file.is_file()
        assert image.spurious == (number < 12)  # also those that have a core feature too
        assert [path.parent.name for path in image.maps] == [
            "feature_7" if number < 12 else "feature_8"
        ]
        assert all(path.is_file() for path in image.maps)


def test_classes_without_votes(salient_dir):
    with pytest.raises(
        DatasetCorruptError, match="votes on the classes 306, 1, 2 .* none on 1, 2."
    ):
        salient_images(salient_dir, [306, 1, 2])


def test_the_layout_is_told(tmp_path, salient_dir):
    (salient_dir / "salient_imagenet_dataset/n02174001/image_names_map.csv").unlink()
    words = "ILSVRC2012/train/WNID/NAME.JPEG; but there is no salient_imagenet_dataset/n02174001/im"
    with pytest.raises(DatasetNotFoundError, match=words):
        salient_images(salient_dir, [306])
    with pytest.raises(DatasetNotFoundError, match="there is no discover_spurious_features.csv"):
        salient_images(tmp_path / "elsewhere", [306])


def test_tables_with_other_columns(salient_dir):
    (salient_dir / "discover_spurious_features.csv").write_text("a,b\n1,2\n")
    with pytest.raises(
        DatasetCorruptError, match="to have the columns Input.class_index, .*, but go"
    ):
        salient_images(salient_dir, [306])
