import pytest

from rightreasons.datasets import decoy_digits, decoy_mnist, describe, folder, load, names
from rightreasons.errors import DatasetNotFoundError, InvalidSettingError, UnknownNameError


def test_names_and_lines():
    assert names() == ("decoy_digits", "decoy_mnist", "folder")
    assert tuple(describe()) == names()
    assert all(0 < len(line) <= 80 for line in describe().values())


@pytest.mark.parametrize("name", ["decoy-digits", "decoy_digits"])
def test_data_without_files(name, tmp_path):
    expected = decoy_digits(seed=3, patch=2).digest()
    assert load(name, seed=3, patch=2).digest() == expected
    assert load(name, data_dir=tmp_path, seed=3, patch=2).digest() == expected


def test_data_in_a_folder(npz_dir, pets):
    found = load("decoy-mnist", data_dir=npz_dir, seed=2, colours="faint", validation=9)
    expected = decoy_mnist(npz_dir, seed=2, colours="faint", validation=9)
    assert found.digest() == expected.digest()
    own = load("folder", data_dir=pets, mask_polarity="relevant")
    assert own.digest() == folder(pets, mask_polarity="relevant").digest()


def test_unknown_name():
    with pytest.raises(UnknownNameError, match="a data set, but got 'decoy-mnst'. Did you mean"):
        load("decoy-mnst")


def test_unknown_setting():
    with pytest.raises(InvalidSettingError, match="decoy_digits' among: .*patch.*; but got colour"):
        load("decoy_digits", colour=3)


@pytest.mark.parametrize("name", ["decoy-mnist", "folder"])
def test_a_folder_is_needed(name):
    with pytest.raises(DatasetNotFoundError, match=f"for '{name}', but got none. Pass `--data-dir"):
        load(name)
