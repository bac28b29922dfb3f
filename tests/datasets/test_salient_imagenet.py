import numpy as np
import pytest
import torch
from tests.datasets.miniature import salient_files, save

from rightreasons.datasets import salient_imagenet
from rightreasons.datasets.sets.salient_imagenet import salient_images
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError

CLASSES = (306, 142, 270)


@pytest.fixture
def salient_dir(tmp_path):
    salient_files(tmp_path)
    return tmp_path


def load(root, **settings):
    return salient_imagenet(root, **{"classes": CLASSES, "size": 16, **settings})


def test_spurious_images_train_and_core_images_test(salient_dir):
    data = load(salient_dir)
    assert data.card.classes == ("rhinoceros beetle", "dowitcher", "white wolf")
    assert data.card.train_group_counts == (0, 23)
    assert (len(data.train), len(data.val), len(data.test)) == (23, 4, 9 + 18)
    assert (data.train.groups == 1).all()
    assert torch.bincount(data.test.groups).tolist() == [18, 9]
    assert torch.bincount(data.test.labels).tolist() == [9, 9, 9]


@pytest.mark.parametrize(("part", "counts"), [("spurious", [0, 9]), ("core", [18])])
def test_one_of_the_two_test_parts(salient_dir, part, counts):
    data = load(salient_dir, test_part=part)
    assert torch.bincount(data.test.groups).tolist() == counts
    assert data.train.digest() == load(salient_dir).train.digest()


def test_masks_are_spurious_maps_or_what_is_not_core(salient_dir):
    batch = load(salient_dir).test.batch
    spurious = batch.group == 1
    left, lower = torch.zeros(16, 16), torch.zeros(16, 16)
    left[:, :8] = 1
    lower[8:] = 1
    assert (batch.mask[spurious] - left).abs().max() < 0.05
    assert (batch.mask[~spurious] - lower).abs().max() < 0.05
    assert batch.annotated.all()


def test_the_middle_of_the_photograph_is_seen(salient_dir):
    image = np.zeros((32, 64, 3))
    image[:, 16:48] = 200  # the middle square is bright
    for path in (salient_dir / "ILSVRC2012").rglob("*.JPEG"):
        save(path, image, quality=95)
    x = load(salient_dir, size=14).train.batch.x
    assert x.shape[1:] == (3, 14, 14)
    assert (x[:, :, 2:-2, 2:-2] - 200 / 255).abs().max() < 0.05


def test_no_image_is_in_two_parts(salient_dir):
    data = load(salient_dir)
    images = [
        x.numpy().tobytes() for part in (data.train, data.val, data.test) for x in part.batch.x
    ]
    assert len(images) == len(set(images)) == 54
    assert load(salient_dir, seed=1).train.digest() != data.train.digest()
    assert load(salient_dir, validation_share=0).val is None


def test_missing_images_and_maps(salient_dir):
    for kind in ("ILSVRC2012", "salient_imagenet_dataset"):
        path = next((salient_dir / kind).rglob("n02174001_3.JPEG"))
        path.unlink()
        with pytest.raises(
            DatasetCorruptError, match=f"{kind}.*n02174001_3.JPEG to be an image, but"
        ):
            load(salient_dir)
        save(path, np.zeros((16, 16)))


def test_no_core_images(salient_dir):
    for table in salient_dir.rglob("image_names_map.csv"):
        rows = [",".join(line.split(",")[:2]) for line in table.read_text().splitlines()]
        table.write_text("\n".join(rows))
    with pytest.raises(InvalidSettingError, match="`test_part` to have images, but .* for 'core'"):
        load(salient_dir, test_part="core")


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
