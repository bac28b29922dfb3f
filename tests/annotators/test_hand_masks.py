import pytest
import torch

import rightreasons as rr
from rightreasons.annotators import draw_annotated, keep_annotations
from rightreasons.annotators.hand_masks import (
    change_below_augmentation,
    find_annotated,
    load_annotated,
    merge_channels,
)
from rightreasons.datasets import Augmented, InMemory, Selected
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
    changed = change_below_augmentation(data, whole_image)
    batch = changed.at_epoch(1).take(torch.arange(24))
    assert torch.equal(batch.mask, batch.x)
    assert torch.equal(batch.x, data.at_epoch(1).take(torch.arange(24)).x)


def test_changes_of_masks_below_stay(make_squares):
    data = ChangedMasks(make_squares(), halved, key="halved")
    same = change_below_augmentation(data, lambda base: base)
    assert torch.equal(same.take(torch.arange(24)).mask, make_squares().batch.mask / 2)


def test_what_is_on_top_of_augmentation_is_refused(make_squares):
    data = Selected(Augmented(make_squares(), flip=True), torch.arange(5))
    with pytest.raises(
        InvalidSettingError, match="Expected data that are flipped and cropped last"
    ):
        change_below_augmentation(data, whole_image)
    assert (
        len(change_below_augmentation(Selected(make_squares(), torch.arange(5)), lambda b: b)) == 5
    )


def test_annotated_samples_alone(make_squares):
    data = make_squares(300, num_annotated=5)
    assert find_annotated(data).nonzero().flatten().tolist() == [0, 1, 2, 3, 4]
    samples = load_annotated(data)
    assert torch.equal(samples.x, data.batch.x[:5])
    assert torch.equal(samples.mask, data.batch.mask[:5])
    assert samples.y.tolist() == [0] * 5


def test_masks_of_other_shapes_get_one_channel_and_full_size():
    x = torch.rand(2, 3, 4, 4)
    mask = torch.zeros(2, 3, 4, 1)
    mask[0, 2, 1] = 1
    full = merge_channels(rr.Batch(x=x, y=torch.tensor([0, 1]), mask=mask))
    assert full.shape == (2, 1, 4, 4)
    assert full[0, 0, 1].tolist() == [1] * 4 and full.sum() == 4
    with pytest.raises(InvalidSettingError, match="Expected a batch with a `mask`"):
        merge_channels(rr.Batch(x=x, y=torch.tensor([0, 1])))


@pytest.mark.parametrize("number", [0, 1])
def test_too_few(make_squares, number):
    with pytest.raises(
        InvalidSettingError, match=f"at least 2 annotated samples.*has {number} of 24. Annotate"
    ):
        load_annotated(make_squares(num_annotated=number))


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_nothing_to_learn(make_squares, value):
    data = make_squares()
    flat = InMemory(data.batch.replace(mask=torch.full_like(data.batch.mask, value)))
    with pytest.raises(InvalidSettingError, match=f"all 24 masks .* are {value:g} everywhere"):
        load_annotated(flat)


def test_data_without_masks_or_images_are_refused(make_squares):
    batch = make_squares().batch
    with pytest.raises(InvalidSettingError, match="Expected data with masks of at least 2 samples"):
        find_annotated(InMemory(batch.replace(mask=None, annotated=None)))
    table = InMemory(rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1])))
    with pytest.raises(InvalidSettingError, match=r"Expected images of shape \(C, H, W\)"):
        find_annotated(table)


LABELS = torch.tensor([0, 1, 2] * 10)
ANNOTATED = torch.arange(30) < 24


def test_so_many_of_each_class_and_fewer_among_more():
    few, more = (draw_annotated(LABELS, ANNOTATED, number, seed=4) for number in (2, 5))
    assert torch.bincount(LABELS[few]).tolist() == [2, 2, 2]
    assert set(few.tolist()) < set(more.tolist())
    assert ANNOTATED[more].all()
    assert few.tolist() == sorted(few.tolist())
    assert not torch.equal(few, draw_annotated(LABELS, ANNOTATED, 2, seed=5))
    assert len(draw_annotated(LABELS, ANNOTATED, 100)) == 24


@pytest.mark.parametrize("augment", [False, True])
def test_other_masks_are_gone(make_squares, augment):
    data = make_squares()
    few = keep_annotations(Augmented(data, flip=True) if augment else data, torch.tensor([3, 8]))
    batch = few.take(torch.arange(24))
    assert batch.annotated.nonzero().flatten().tolist() == [3, 8]
    assert batch.guided.nonzero().flatten().tolist() == [3, 8]
    assert torch.equal(batch.mask[3], data.batch.mask[3])
    assert isinstance(few, Augmented) == augment
    assert few.digest() != data.digest()


def test_none_is_refused():
    with pytest.raises(
        InvalidSettingError, match="Expected `num_annotations` to be a whole number"
    ):
        draw_annotated(LABELS, ANNOTATED, 0)
