import torch

from rightreasons.datasets.masks import Box, bounding_box, move_to_box


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
