import pytest
import torch

from rightreasons.datasets import (
    Augmented,
    InMemory,
    Splits,
    corrupt_masks,
    decoy_digits,
    folder,
    mask_count,
    mask_fraction,
)
from rightreasons.datasets.masks import CORRUPTIONS, Box, bounding_box, move_to_box
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Batch


def slow_box(mask):
    rows, columns = zip(*[(r, c) for _, r, c in (mask > 0).nonzero().tolist()], strict=True)
    return min(rows), min(columns), max(rows) - min(rows) + 1, max(columns) - min(columns) + 1


def box(*numbers):
    return Box(*(torch.tensor([number]) for number in numbers))


def test_boxes_are_the_smallest():
    masks = (torch.rand(200, 2, 7, 5) < 0.06).float()
    masks = masks[masks.flatten(1).any(dim=1)]
    found = torch.stack(list(bounding_box(masks)), dim=1).tolist()
    assert [tuple(one) for one in found] == [slow_box(mask) for mask in masks]


def test_an_empty_mask_has_no_height():
    assert [int(value) for value in bounding_box(torch.zeros(1, 1, 3, 4))] == [0, 0, 0, 0]


def test_moving_keeps_the_shape():
    mask = torch.zeros(1, 1, 6, 6)
    mask[0, 0, :2, :3] = torch.tensor([[1.0, 0.5, 0.0], [0.0, 0.2, 1.0]])
    found = move_to_box(mask, box(0, 0, 2, 3), box(3, 2, 2, 3))
    assert torch.equal(found[0, 0, 3:5, 2:5], mask[0, 0, :2, :3])
    assert found.sum() == mask.sum()


def test_stretching_and_shrinking_take_the_nearest_pixel():
    mask = torch.zeros(1, 1, 4, 4)
    mask[0, 0, 0, :2] = torch.tensor([0.3, 0.6])
    wide = move_to_box(mask, box(0, 0, 1, 2), box(0, 0, 2, 4))
    row = torch.tensor([0.3, 0.3, 0.6, 0.6])
    assert torch.equal(wide[0, 0], torch.stack([row, row, 0 * row, 0 * row]))
    assert torch.equal(move_to_box(wide, box(0, 0, 2, 4), box(0, 0, 1, 2)), mask)


def test_what_leaves_the_image_is_lost():
    mask = torch.ones(1, 1, 3, 3)
    assert move_to_box(mask, box(0, 0, 3, 3), box(-1, 2, 3, 3))[0, 0].tolist() == [
        [0, 0, 1],
        [0, 0, 1],
        [0, 0, 0],
    ]


def masked_at(places, size=12):
    """Data of two classes, with masks that are empty but at some places."""
    mask = torch.zeros(size, 2)
    mask[places, 1] = 0.5
    x, y = torch.arange(2.0 * size).reshape(size, 2), torch.arange(size) % 2
    data = InMemory(Batch(x=x, y=y, mask=mask))
    return Splits(train=data, val=None, test=data)


def annotated_indices(splits):
    return set(splits.train.batch.annotated.nonzero().flatten().tolist())


def test_only_masks_that_are_not_empty_count():
    data = masked_at([1, 4, 5, 8, 9, 11])
    few = mask_count(data, num_masks=3)
    places = sorted(annotated_indices(few))
    assert len(places) == 3
    assert set(places) <= {1, 4, 5, 8, 9, 11}
    assert torch.equal(few.train.batch.mask[places], data.train.batch.mask[places])
    assert int(few.train.batch.mask.any(dim=1).sum()) == 3
    assert torch.equal(few.train.batch.x, data.train.batch.x)
    assert few.test.batch is data.test.batch
    assert data.train.batch.annotated.all()
    assert "3 training masks" in few.card.description


def test_fewer_are_among_more_stratified_by_label_and_seeds_differ():
    data = decoy_digits()
    draws = [annotated_indices(mask_count(data, num_masks=number)) for number in (0, 20, 200)]
    assert [len(draw) for draw in draws] == [0, 20, 200]
    assert all(small <= large for small, large in zip(draws, draws[1:], strict=False))
    assert annotated_indices(mask_count(data, num_masks=20, seed=1)) != draws[1]
    counts = torch.bincount(data.train.labels[sorted(draws[1])], minlength=10)
    assert counts.max() <= 3


def test_counted_masks_on_disk_are_those_in_memory(pets):
    memory, disk = (
        mask_count(
            folder(pets, mask_polarity="irrelevant", in_memory=kind, workers=0, flip=True),
            num_masks=2,
        )
        for kind in (True, False)
    )
    assert isinstance(disk.train, Augmented)
    rows = torch.arange(len(memory.train))
    one, other = (data.train.take(rows) for data in (memory, disk))
    assert torch.equal(one.mask, other.mask)
    assert torch.equal(one.annotated, other.annotated)
    assert int(one.annotated.sum()) == 2


def test_data_without_masks():
    data = InMemory(Batch(x=torch.rand(2, 2), y=torch.tensor([0, 1])))
    with pytest.raises(InvalidSettingError, match="with masks, but 'data' has none in training"):
        mask_count(Splits(train=data, val=None, test=data), num_masks=1)


def test_bad_numbers():
    with pytest.raises(InvalidSettingError, match="at most 2, the training masks of 'data' that a"):
        mask_count(masked_at([1, 2]), num_masks=3)
    with pytest.raises(InvalidSettingError, match="Expected `num_masks` to be a whole number"):
        mask_count(masked_at([1, 2]), num_masks=-1)


def test_a_stratified_share_of_the_masks_stays():
    data = decoy_digits(seed=1)
    few = mask_fraction(data, fraction=0.2, seed=3)
    kept, batch, before = few.train.batch.annotated, few.train.batch, data.train.batch
    assert int(kept.sum()) == 200
    assert torch.equal(batch.mask[kept], before.mask[kept])
    assert not batch.mask[~kept].any()
    assert torch.equal(batch.x, before.x)
    shares = torch.bincount(batch.y[kept]) / torch.bincount(batch.y)
    assert (shares - 0.2).abs().max() < 0.02
    assert (few.val.digest(), few.test.digest()) == (data.val.digest(), data.test.digest())
    assert before.annotated.all()
    assert "20% of the training masks" in few.card.description


def test_the_data_are_cut_to_the_share():
    data = decoy_digits(seed=1)
    few, masks = (
        mask_fraction(data, fraction=0.3, keep=keep, seed=3) for keep in ("data", "masks")
    )
    kept = masks.train.batch.annotated
    assert torch.equal(few.train.batch.x, data.train.batch.x[kept])
    assert torch.equal(few.train.batch.mask, data.train.batch.mask[kept])
    assert few.train.batch.annotated.all()
    assert sum(few.card.train_group_counts) == 300 == len(few.train)
    assert few.test.card == few.card


def test_smaller_shares_are_nested_and_seeds_differ():
    data = decoy_digits()

    def kept(fraction, seed=0):
        annotated = mask_fraction(data, fraction=fraction, seed=seed).train.batch.annotated
        return set(annotated.nonzero().flatten().tolist())

    shares = [kept(fraction) for fraction in (0, 0.04, 0.2, 0.4, 1)]
    assert [len(share) for share in shares] == [0, 40, 200, 400, 1000]
    assert all(small <= large for small, large in zip(shares, shares[1:], strict=False))
    assert kept(0.2) == kept(0.2) != kept(0.2, seed=1)


@pytest.mark.parametrize("keep", ["masks", "data"])
def test_kept_masks_on_disk_are_those_in_memory(pets, keep):
    memory, disk = (
        mask_fraction(
            folder(pets, mask_polarity="irrelevant", in_memory=kind, workers=0, flip=True),
            fraction=0.5,
            keep=keep,
        )
        for kind in (True, False)
    )
    assert isinstance(disk.train, Augmented)
    rows = torch.arange(len(memory.train))
    for epoch in (0, 1):
        one, other = (data.train.at_epoch(epoch).take(rows) for data in (memory, disk))
        assert torch.equal(one.x, other.x)
        assert torch.equal(one.mask, other.mask)
        assert torch.equal(one.annotated, other.annotated)
    assert len(memory.train) == len(disk.train) == (3 if keep == "data" else 6)


def unmasked():
    data = InMemory(Batch(x=torch.rand(4, 2), y=torch.tensor([0, 1, 0, 1])))
    return Splits(train=data, val=None, test=data)


def test_data_without_masks_can_be_cut_only():
    assert len(mask_fraction(unmasked(), fraction=0.5, keep="data").train) == 2
    with pytest.raises(InvalidSettingError, match="with masks, but 'data' has none in training"):
        mask_fraction(unmasked(), fraction=0.5)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"fraction": 1.5}, "Expected `fraction` to be a number from 0 to 1, but got 1.5"),
        ({"fraction": 0.1, "keep": "all"}, "Expected `keep` to be 'masks' or 'data'"),
        ({"fraction": 0.1, "keep": "data"}, "to leave training samples, but 0.1 of 4 is none"),
        ({"fraction": 0.5, "seed": -1}, "Expected `seed` to be a whole number from 0"),
    ],
)
def test_bad_fractions(settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        mask_fraction(unmasked(), **settings)


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


@pytest.mark.parametrize(("kind", "expected"), [("shrink", {1, 2, 3}), ("dilation", {5, 6, 7, 8})])
def test_shrunk_and_dilated_masks_stay_in_their_corner(digits, kind, expected):
    sides = set()
    for (top, left, *_), (new_top, new_left, height, width) in corrupted_boxes(digits, kind):
        assert height == width
        assert new_top == (0 if top == 0 else 28 - height)
        assert new_left == (0 if left == 0 else 28 - width)
        sides.add(height)
    assert sides == expected


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
def test_corrupted_masks_on_disk_are_those_in_memory(pets, save_image, kind):
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
def test_bad_corruptions(digits, settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        corrupt_masks(digits, **settings)


def test_masks_in_a_wrong_place_touch_no_corner():
    """A patch may lie in any corner, so that none of them is a wrong place."""
    digits = decoy_digits(patch=2)
    mask = corrupt_masks(digits, kind="misposition").train.batch.mask
    corners = torch.zeros(mask.shape[2:], dtype=torch.bool)
    corners[:3, :3] = corners[:3, -3:] = corners[-3:, :3] = corners[-3:, -3:] = True
    assert mask.flatten(1).any(dim=1).all()
    assert not mask[:, 0, corners].any()
