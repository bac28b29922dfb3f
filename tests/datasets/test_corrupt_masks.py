import pytest
import torch

from rightreasons.datasets import InMemory, Splits, corrupt_masks, decoy_digits, folder
from rightreasons.datasets.masks import CORRUPTIONS
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Batch

SIDE = 4


@pytest.fixture(scope="module")
def digits():
    return decoy_digits(size=28, patch=SIDE)


def boxes(mask):
    """Sorted rows and columns of each mask, which must be one full rectangle."""
    found = []
    for one in mask[:, 0]:
        rows, columns = one.any(dim=1).nonzero().flatten(), one.any(dim=0).nonzero().flatten()
        top, left, height, width = int(rows[0]), int(columns[0]), len(rows), len(columns)
        assert one[top : top + height, left : left + width].all()
        assert one.sum() == height * width
        found.append((top, left, height, width))
    return found


def corrupted_boxes(digits, kind):
    before, after = digits.train.batch.mask, corrupt_masks(digits, kind=kind).train.batch.mask
    return list(zip(boxes(before), boxes(after), strict=True))


def inward(start):
    return 1 if start == 0 else -1


def test_misplaced_masks_do_not_touch_the_patch(digits):
    places = set()
    for (top, left, *_), (new_top, new_left, height, width) in corrupted_boxes(
        digits, "misposition"
    ):
        assert (height, width) == (SIDE, SIDE)
        assert max(abs(new_top - top), abs(new_left - left)) > SIDE
        places.add((new_top, new_left))
    assert len(places) > 300
    assert {top for top, _ in places} == {left for _, left in places} == set(range(25))


def test_shifted_masks_move_inwards_on_both_axes(digits):
    steps = set()
    for (top, left, *_), (new_top, new_left, height, width) in corrupted_boxes(digits, "shift"):
        assert (height, width) == (SIDE, SIDE)
        step = inward(top) * (new_top - top)
        assert step == inward(left) * (new_left - left)
        steps.add(step)
    assert steps == {1, 2, 3}


def test_shrunk_masks_stay_in_their_corner(digits):
    sides = set()
    for (top, left, *_), (new_top, new_left, height, width) in corrupted_boxes(digits, "shrink"):
        assert height == width
        assert new_top == (0 if top == 0 else 28 - height)
        assert new_left == (0 if left == 0 else 28 - width)
        sides.add(height)
    assert sides == {1, 2, 3}


def test_dilated_masks_grow_from_their_corner(digits):
    sides = set()
    for (top, left, *_), (new_top, new_left, height, width) in corrupted_boxes(digits, "dilation"):
        assert height == width
        assert new_top == (0 if top == 0 else 28 - height)
        assert new_left == (0 if left == 0 else 28 - width)
        sides.add(height)
    assert sides == {5, 6, 7, 8}


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_a_stratified_share_stays_right(digits, kind):
    right = []
    for correct in (0.0, 0.4, 0.8, 1.0):
        data = corrupt_masks(digits, kind=kind, correct=correct, seed=2)
        same = (data.train.batch.mask == digits.train.batch.mask).flatten(1).all(dim=1)
        right.append(same)
        assert same.float().mean() == pytest.approx(correct)
        shares = torch.bincount(data.train.labels[same], minlength=10) / torch.bincount(
            data.train.labels
        )
        assert (shares - correct).abs().max() < 0.02
        assert data.train.batch.annotated.all()
        assert torch.equal(data.train.batch.x, digits.train.batch.x)
        assert (data.val.digest(), data.test.digest()) == (
            digits.val.digest(),
            digits.test.digest(),
        )
    assert all((small <= large).all() for small, large in zip(right, right[1:], strict=False))


def test_seeds(digits):
    first, again, other = (
        corrupt_masks(digits, kind="misposition", correct=0.5, seed=seed).train.digest()
        for seed in (0, 0, 1)
    )
    assert first == again != other


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_images_on_disk_are_treated_as_those_in_memory(pets, save_image, kind):
    for path in (pets / "masks").iterdir():
        mask = torch.zeros(8, 10)
        mask[:2, 7:] = 255
        save_image(path, mask)
    memory, disk = (
        corrupt_masks(
            folder(pets, mask_polarity="irrelevant", in_memory=kept, workers=0), kind=kind
        )
        for kept in (True, False)
    )
    whole = memory.train.take(torch.arange(6))
    for rows in (torch.tensor([4, 1]), torch.tensor([5, 2, 0, 3])):
        batch = disk.train.take(rows)
        assert torch.equal(batch.mask, whole.mask[rows])
        assert torch.equal(batch.annotated, whole.annotated[rows])
    unmarked = ~whole.annotated
    assert unmarked.any()
    assert not whole.mask[unmarked].any()


def splits_of(x, mask=None):
    data = InMemory(Batch(x=x, y=torch.arange(len(x)) % 2, mask=mask))
    return Splits(train=data, val=None, test=data)


def test_masks_of_any_shape_keep_it():
    mask = torch.zeros(40, 1, 12, 12)
    mask[:, 0, 5, 4:7] = 0.5
    mask[:, 0, 4:7, 5] = 1  # a cross with soft arms
    data = corrupt_masks(splits_of(torch.rand(40, 3, 12, 12), mask), kind="shift")
    moved = data.train.batch.mask
    assert torch.equal(moved.flatten(1).sort(dim=1).values, mask.flatten(1).sort(dim=1).values)
    assert not torch.equal(moved, mask)


def test_masks_of_one_pixel_are_shifted_but_cannot_shrink():
    mask = torch.zeros(4, 1, 6, 6)
    mask[:, 0, 0, 5] = 1
    data = splits_of(torch.rand(4, 1, 6, 6), mask)
    shifted = corrupt_masks(data, kind="shift").train.batch.mask
    assert shifted[:, 0, 1, 4].tolist() == [1] * 4
    assert torch.equal(corrupt_masks(data, kind="shrink").train.batch.mask, mask)
    grown = corrupt_masks(data, kind="dilation").train.batch.mask
    assert (
        grown[:, 0, :2, 4:].sum(dim=(1, 2)).tolist() == [4] * 4 == grown.sum(dim=(1, 2, 3)).tolist()
    )


def test_a_mask_that_broadcasts_is_drawn_out():
    mask = torch.zeros(2, 1, 8, 1)
    mask[:, 0, :2] = 1
    data = corrupt_masks(splits_of(torch.rand(2, 1, 8, 8), mask), kind="dilation")
    assert data.train.batch.mask.shape == (2, 1, 8, 8)


def test_no_room_to_misplace():
    mask = torch.zeros(2, 1, 6, 6)
    mask[:, 0, :4, :4] = 1
    data = splits_of(torch.rand(2, 1, 6, 6), mask)
    with pytest.raises(
        InvalidSettingError, match="but got one of 4x4 pixels in an image of 6x6. C"
    ):
        corrupt_masks(data, kind="misposition")


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (torch.rand(4, 3), r"'data' has samples of shape \(3,\) and no masks in training"),
        (torch.rand(4, 1, 5, 5), r"shape \(1, 5, 5\) and no masks in training"),
    ],
)
def test_images_with_masks_are_needed(x, words):
    with pytest.raises(InvalidSettingError, match=words):
        corrupt_masks(splits_of(x), kind="shift")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"kind": "blur"},
            "Expected `kind` to be 'misposition' or 'shift' or 'shrink' or 'dilation'",
        ),
        (
            {"kind": "shift", "correct": 2},
            "Expected `correct` to be a number from 0 to 1, but got 2",
        ),
        ({"kind": "shift", "seed": -1}, "Expected `seed` to be a whole number from 0"),
    ],
)
def test_bad_settings(digits, settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        corrupt_masks(digits, **settings)
