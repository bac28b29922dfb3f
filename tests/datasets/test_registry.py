import pytest

from rightreasons import datasets
from rightreasons.datasets import (
    corrupt_masks,
    decoy_digits,
    decoy_mnist,
    describe,
    folder,
    load,
    mask_count,
    mask_fraction,
    names,
    sets,
)
from rightreasons.datasets.registry import MASK_SETTINGS, apply_mask_settings
from rightreasons.errors import DatasetNotFoundError, InvalidSettingError, UnknownNameError


def test_names_and_lines():
    assert set(names()) == set(sets.__all__) <= set(datasets.__all__)
    assert tuple(describe()) == names()
    assert all(0 < len(line) <= 80 for line in describe().values())


@pytest.mark.parametrize("name", ["decoy-digits", "decoy_digits"])
def test_data_without_files(name, tmp_path):
    expected = decoy_digits(seed=3, patch=2).digest()
    assert load(name, seed=3, patch=2).digest() == expected
    assert load(name, data_dir=tmp_path, seed=3, patch=2).digest() == expected


def test_data_in_a_folder(npz_dir, pets):
    loaded = load("decoy-mnist", data_dir=npz_dir, seed=2, colours="faint", validation=9)
    expected = decoy_mnist(npz_dir, seed=2, colours="faint", validation=9)
    assert loaded.digest() == expected.digest()
    images = load("folder", data_dir=pets, mask_polarity="relevant")
    assert images.digest() == folder(pets, mask_polarity="relevant").digest()


def test_unknown_name():
    with pytest.raises(UnknownNameError, match="a data set, but got 'decoy-mnst'. Did you mean"):
        load("decoy-mnst")


def test_every_data_set_takes_settings_of_its_masks(npz_dir, pets):
    reduced = load("decoy-mnist", data_dir=npz_dir, seed=2, validation=9, mask_fraction=0.2)
    expected = mask_fraction(decoy_mnist(npz_dir, seed=2, validation=9), fraction=0.2, seed=2)
    assert reduced.digest() == expected.digest()
    wrong = load(
        "folder",
        data_dir=pets,
        mask_polarity="relevant",
        in_memory=False,
        mask_corruption="shrink",
        mask_correct=0.5,
    )
    plain = folder(pets, mask_polarity="relevant", in_memory=False)
    assert wrong.digest() == corrupt_masks(plain, kind="shrink", correct=0.5).digest()


def test_unknown_setting():
    with pytest.raises(InvalidSettingError, match="among: .*mask_fraction.*; but got mask_fracton"):
        load("decoy_digits", mask_fracton=0.2)
    with pytest.raises(InvalidSettingError, match="decoy_digits' among: .*patch.*; but got colour"):
        load("decoy_digits", colour=3)


@pytest.mark.parametrize("name", ["decoy-mnist", "folder"])
def test_a_folder_is_needed(name):
    with pytest.raises(DatasetNotFoundError, match=f"for '{name}', but got none. Pass `--data-dir"):
        load(name)


def test_names_of_the_mask_settings():
    assert MASK_SETTINGS == (
        "mask_fraction",
        "mask_fraction_keep",
        "mask_corruption",
        "mask_correct",
        "num_masks",
    )


def test_masks_are_corrupted_and_then_reduced():
    data = decoy_digits()
    assert apply_mask_settings(data) is data
    corrupted = corrupt_masks(data, kind="shrink", correct=0.4, seed=5)
    expected = mask_fraction(corrupted, fraction=0.2, keep="data", seed=5)
    loaded = apply_mask_settings(
        data,
        mask_fraction=0.2,
        mask_fraction_keep="data",
        mask_corruption="shrink",
        mask_correct=0.4,
        seed=5,
    )
    assert loaded.digest() == expected.digest()
    assert loaded.card == expected.card


def test_masks_are_counted_among_the_samples_that_were_kept():
    data = decoy_digits()
    cut = mask_fraction(data, fraction=0.2, keep="data", seed=5)
    settings = {"mask_fraction": 0.2, "mask_fraction_keep": "data", "num_masks": 7}
    loaded = apply_mask_settings(data, **settings, seed=5)
    assert loaded.digest() == mask_count(cut, num_masks=7, seed=5).digest()
    assert len(loaded.train) == 200
    assert int(loaded.train.batch.annotated.sum()) == 7


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"mask_correct": 0.5},
            "`mask_corruption` beside `mask_correct`, but got 0.5 alone. Choose",
        ),
        (
            {"mask_fraction_keep": "data"},
            "`mask_fraction` beside `mask_fraction_keep`, but got 'da",
        ),
    ],
)
def test_settings_that_need_another(settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        apply_mask_settings(decoy_digits(), **settings)


def test_folders_with_spaces_are_named_as_a_shell_takes_them(tmp_path):
    own = tmp_path / "my images"
    own.mkdir()
    with pytest.raises(UnknownNameError, match=f"--data image_folder --data-dir '{own}'"):
        load(str(own))
