import pytest

from rightreasons.datasets import corrupt_masks, decoy_digits, mask_count, mask_fraction
from rightreasons.datasets.registry import MASK_SETTINGS, apply_mask_settings
from rightreasons.errors import InvalidSettingError


def test_names():
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
    found = apply_mask_settings(
        data,
        mask_fraction=0.2,
        mask_fraction_keep="data",
        mask_corruption="shrink",
        mask_correct=0.4,
        seed=5,
    )
    assert found.digest() == expected.digest()
    assert found.card == expected.card


def test_masks_are_counted_among_the_samples_that_were_kept():
    data = decoy_digits()
    cut = mask_fraction(data, fraction=0.2, keep="data", seed=5)
    settings = {"mask_fraction": 0.2, "mask_fraction_keep": "data", "num_masks": 7}
    found = apply_mask_settings(data, **settings, seed=5)
    assert found.digest() == mask_count(cut, num_masks=7, seed=5).digest()
    assert len(found.train) == 200
    assert int(found.train.batch.annotated.sum()) == 7


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
