import numpy as np
import pytest
import torch
from tests.datasets.miniature import class_folders, save

from rightreasons.datasets import Augmented, image_folder
from rightreasons.datasets.images.files import image_size
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError


def test_without_a_test_folder_val_judges_and_training_validates(tmp_path):
    class_folders(tmp_path)
    splits = image_folder(tmp_path, size=8, validation_share=0.25)
    assert [len(part) for part in (splits.train, splits.val, splits.test)] == [12, 4, 8]
    assert splits.card.classes == ("n01440764", "n01443537")
    assert torch.bincount(splits.val.labels).tolist() == [2, 2]
    assert splits.card.shape == (3, 8, 8)
    assert splits.card.description.startswith("24 images of 2 classes from the folder")
    assert image_folder(tmp_path, size=8, validation_share=0.0).val is None


def test_with_a_test_folder_every_part_is_what_it_is_called(tmp_path):
    class_folders(tmp_path, parts=("train", "validation", "test"), count=3)
    splits = image_folder(tmp_path, size=8, crop=1, flip=True)
    assert [len(part) for part in (splits.train, splits.val, splits.test)] == [6, 6, 6]
    assert isinstance(splits.train, Augmented)
    save(tmp_path / "test" / "n99" / "1.png", torch.zeros(4, 4, 3))
    with pytest.raises(DatasetCorruptError, match="test/n99: is no class of the training images"):
        image_folder(tmp_path, size=8)


def test_small_images_of_one_size_keep_it(tmp_path):
    for number, name in enumerate(("cat", "dog") * 5):
        save(tmp_path / name / f"{number}.png", torch.zeros(6, 9, 3))
    assert image_folder(tmp_path).card.shape == (3, 6, 9)
    save(tmp_path / "cat" / "0.png", torch.zeros(6, 6, 3))
    assert image_folder(tmp_path).card.shape == (3, 224, 224)


def test_missing_folders_and_wrong_settings_are_named(tmp_path):
    with pytest.raises(DatasetNotFoundError, match="train/CLASS and in val/CLASS or test/CLASS"):
        image_folder(tmp_path / "nowhere")
    class_folders(tmp_path, parts=("train",), count=1)
    with pytest.raises(DatasetNotFoundError, match="but found 2 in train, 0 in val, 0 in test"):
        image_folder(tmp_path)
    with pytest.raises(InvalidSettingError, match="Expected `validation_share`"):
        image_folder(tmp_path, validation_share=1.0)


def test_damaged_images_are_named(tmp_path):
    class_folders(tmp_path)
    (tmp_path / "train.X1" / "n01440764" / "bad.jpg").write_bytes(b"no image")
    with pytest.raises(DatasetCorruptError, match="bad.jpg: is not an image Pillow can read"):
        image_folder(tmp_path, size=8)


def test_class_folders_alone_are_split_by_the_seed(tmp_path):
    for number in range(20):
        save(tmp_path / ("cat", "dog")[number % 2] / f"{number}.png", np.full((4, 4), number))
    splits = image_folder(tmp_path, size=4)
    assert [len(part) for part in (splits.train, splits.val, splits.test)] == [14, 2, 4]
    assert torch.bincount(splits.test.labels).tolist() == [2, 2]
    assert splits.test.files.names != image_folder(tmp_path, size=4, seed=1).test.files.names
    (tmp_path / "dog").rename(tmp_path / ".dog")
    with pytest.raises(DatasetNotFoundError, match="in CLASS for two classes or more"):
        image_folder(tmp_path / "dog")


def test_masks_lie_in_a_tree_of_their_own(tmp_path):
    class_folders(tmp_path, count=4)
    image = next(tmp_path.glob("train*/n01440764/*"))
    name = image.relative_to(tmp_path).with_suffix(".png")
    height, width = image_size(image)
    mask = np.zeros((height, width))
    mask[: height // 2] = 255
    save(tmp_path / "masks" / name, mask)
    with pytest.raises(DatasetCorruptError, match="there are masks.*.--mask-polarity irrelevant"):
        image_folder(tmp_path, size=8)
    splits = image_folder(tmp_path, size=8, mask_polarity="irrelevant", validation_share=0.0)
    assert int(splits.train.batch.annotated.sum()) == 1
    assert splits.train.batch.mask.sum() == 32
    assert splits.card.shortcut == "what the masks mark"
    save(tmp_path / "masks" / "train" / "other.png", mask)
    with pytest.raises(DatasetCorruptError, match="masks/train/other.png: is the mask of no image"):
        image_folder(tmp_path, size=8, mask_polarity="irrelevant")
