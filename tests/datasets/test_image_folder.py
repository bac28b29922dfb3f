import pytest
import torch
from tests.datasets.miniature import class_folders, save

from rightreasons.datasets import Augmented, image_folder
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
