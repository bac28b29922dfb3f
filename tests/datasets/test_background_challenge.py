import pytest
from tests.datasets.miniature import challenge_files, save

from rightreasons.datasets import background_challenge
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError

GREY = [[[9, 9, 9]] * 4] * 4


def test_every_test_set_is_there(tmp_path):
    challenge_files(tmp_path)
    data = background_challenge(tmp_path, size=8, validation_share=0.25)
    assert data.card.classes == ("00_dog", "01_bird")
    assert (len(data.train), len(data.val), len(data.test)) == (12, 4, 6)
    assert list(data.more_tests) == ["mixed_same", "mixed_rand", "only_fg"]
    assert data.test.labels.tolist() == [0] * 3 + [1] * 3
    assert len({part.digest() for part in (data.test, *data.more_tests.values())}) == 4


def test_another_may_be_the_test_part(tmp_path):
    challenge_files(tmp_path, around="", tests=("original", "mixed_rand"))
    data = background_challenge(tmp_path, size=8, test="mixed_rand")
    assert list(data.more_tests) == ["original"]
    usual = background_challenge(tmp_path, size=8)
    assert usual.more_tests["mixed_rand"].digest() == data.test.digest()


def test_a_validation_folder_is_used(tmp_path):
    challenge_files(tmp_path)
    for name in ("00_dog", "01_bird"):
        save(tmp_path / "val" / name / "1.png", GREY)
    data = background_challenge(tmp_path, size=8)
    assert (len(data.train), len(data.val)) == (16, 2)


def test_what_is_not_there(tmp_path):
    with pytest.raises(DatasetNotFoundError, match="Expected images of ImageNet-9 .* 0 and 0"):
        background_challenge(tmp_path)
    challenge_files(tmp_path, tests=("original",))
    with pytest.raises(DatasetNotFoundError, match="bg_challenge/only_fg/val/CLASS"):
        background_challenge(tmp_path, test="only_fg")


def test_a_class_nobody_trained_on(tmp_path):
    challenge_files(tmp_path)
    save(tmp_path / "bg_challenge" / "only_fg" / "val" / "09_cow" / "1.png", GREY)
    with pytest.raises(DatasetCorruptError, match="09_cow: is no class of the training images"):
        background_challenge(tmp_path, size=8)
