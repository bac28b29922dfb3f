import pytest
import torch

from rightreasons.annotators.hand_masks import before_augmentation
from rightreasons.datasets import Augmented, Selected
from rightreasons.datasets.wrappers import ChangedMasks, change_masks
from rightreasons.errors import InvalidSettingError


def whole_image(data):
    """Masks that are the image itself."""
    images = data.take(torch.arange(len(data))).x
    return change_masks(data, lambda m, a, places: (images[places], a), key="image")


def halved(mask, annotated, places):
    del places
    return mask / 2, annotated


@pytest.mark.parametrize("on_top", [False, True])
def test_masks_move_with_the_images(make_squares, on_top):
    data = Augmented(make_squares(), flip=True, crop=2, seed=3)
    if on_top:
        data = ChangedMasks(data, halved, key="halved")
    changed = before_augmentation(data, whole_image)
    batch = changed.at_epoch(1).take(torch.arange(24))
    assert torch.equal(batch.mask, batch.x)
    assert torch.equal(batch.x, data.at_epoch(1).take(torch.arange(24)).x)


def test_changes_of_masks_below_stay(make_squares):
    data = ChangedMasks(make_squares(), halved, key="halved")
    same = before_augmentation(data, lambda base: base)
    assert torch.equal(same.take(torch.arange(24)).mask, make_squares().batch.mask / 2)


def test_what_is_on_top_of_augmentation_is_refused(make_squares):
    data = Selected(Augmented(make_squares(), flip=True), torch.arange(5))
    with pytest.raises(
        InvalidSettingError, match="Expected data that are flipped and cropped last"
    ):
        before_augmentation(data, whole_image)
    assert len(before_augmentation(Selected(make_squares(), torch.arange(5)), lambda b: b)) == 5
