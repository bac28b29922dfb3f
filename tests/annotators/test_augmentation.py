import pytest
import torch

from rightreasons.annotators.augmentation import Pasted, Rotated, augment, rotate_images
from rightreasons.datasets import Augmented
from rightreasons.errors import InvalidSettingError


def test_a_quarter_turn_is_exact():
    image = torch.rand(2, 3, 6, 6)
    for quarters in (1, 2, 3):
        degrees = torch.full((2,), 90.0 * quarters)
        for mode in ("bilinear", "nearest"):
            expected = torch.rot90(image, quarters, dims=(2, 3))
            torch.testing.assert_close(
                rotate_images(image, degrees, mode=mode), expected, atol=1e-4, rtol=0
            )


def test_images_that_are_not_square_keep_their_shape():
    """A dot to the right of the centre goes up by as many pixels."""
    image = torch.zeros(1, 1, 9, 15)
    image[0, 0, 4, 10] = 1
    moved = rotate_images(image, torch.tensor([90.0]))
    assert moved.argmax().item() == 1 * 15 + 7


def test_masks_are_turned_with_their_images(make_squares):
    data = make_squares(40, side=15)
    seen = augment(data, flip=True, shift=1, degrees=30, seed=1)
    plain = seen.take(torch.arange(40))
    assert torch.equal(plain.x, data.batch.x)
    assert seen.digest() == data.digest()
    batch = seen.at_epoch(0).take(torch.arange(40))
    assert not torch.equal(batch.x, data.batch.x)
    assert set(batch.mask.unique().tolist()) == {0.0, 1.0}
    inside = (batch.x * batch.mask).sum() / batch.mask.sum()
    assert inside > 0.8  # the squares are 1, the rest below a half


def test_what_training_sees_depends_on_the_place_and_the_epoch(make_squares):
    seen = Rotated(make_squares(8), degrees=45, seed=2)
    whole = seen.at_epoch(1).take(torch.arange(8))
    assert torch.equal(seen.at_epoch(1).take(torch.tensor([5])).x, whole.x[5:6])
    assert not torch.equal(seen.at_epoch(2).take(torch.arange(8)).x, whole.x)


def test_what_is_marked_is_pasted_and_marked_where_it_came(make_squares):
    data = make_squares(40, side=15)
    seen = augment(data, paste=0.5, seed=1)
    assert torch.equal(seen.take(torch.arange(40)).x, data.batch.x)
    batch = seen.at_epoch(0).take(torch.arange(40))
    new = (batch.mask > data.batch.mask).expand_as(batch.x)
    changed = new.flatten(1).any(dim=1)
    assert 5 < int(changed.sum()) < 35  # about half, less those that got it where it was
    assert torch.equal(batch.x[~new], data.batch.x[~new])
    assert (batch.mask >= data.batch.mask).all()
    inside = (batch.x * batch.mask).sum() / batch.mask.sum()
    assert inside > 0.95  # the squares are 1, the rest below a half


def test_what_is_pasted_depends_on_the_place_and_the_epoch(make_squares):
    seen = Pasted(make_squares(8), share=0.9, seed=2)
    whole = seen.at_epoch(1).take(torch.arange(8))
    for place in range(8):
        alone = seen.at_epoch(1).take(torch.tensor([place]))
        assert torch.equal(alone.x, whole.x[place : place + 1])
        assert torch.equal(alone.mask, whole.mask[place : place + 1])
    assert not torch.equal(seen.at_epoch(2).take(torch.arange(8)).x, whole.x)


def test_nothing_is_wrapped_that_need_not_be(make_squares):
    data = make_squares(4)
    assert augment(data) is data
    assert isinstance(augment(data, shift=1), Augmented)


@pytest.mark.parametrize("degrees", [-1, 181, True, "some"])
def test_bad_angles(make_squares, degrees):
    with pytest.raises(
        InvalidSettingError, match="Expected `degrees` to be a number from 0 to 180"
    ):
        Rotated(make_squares(4), degrees=degrees)


@pytest.mark.parametrize("share", [-0.1, 1.0, True, "some"])
def test_bad_shares(make_squares, share):
    with pytest.raises(InvalidSettingError, match="Expected `share` to be a number from 0 to"):
        Pasted(make_squares(4), share=share)
