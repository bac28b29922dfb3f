import torch
from tests.reference import bounds as slow

from rightreasons.bounds import Box
from rightreasons.bounds.box import product, product_ends, round_outward


def boxes():
    return [
        Box(torch.randn(2, 50, dtype=torch.float64), torch.rand(2, 50, dtype=torch.float64))
        for _ in range(2)
    ]


def test_products_are_those_of_single_intervals():
    first, second = boxes()
    for box in (product(first, second, outward=False), product(second, first, outward=False)):
        for sample in range(2):
            pairs = zip(slow.intervals(first, sample), slow.intervals(second, sample), strict=True)
            expected = [slow.multiplied(a, b) for a, b in pairs]
            torch.testing.assert_close(
                torch.tensor(slow.intervals(box, sample)), torch.tensor(expected)
            )


def test_a_point_times_a_box_is_exact():
    _, box = boxes()
    point = Box.exact(torch.full((2, 50), -2.0, dtype=torch.float64))
    for found in (product(point, box, outward=False), product(box, point, outward=False)):
        torch.testing.assert_close(found.lower, -2 * box.upper)
        torch.testing.assert_close(found.upper, -2 * box.lower)


def test_rounded_ends_are_apart():
    first, second = boxes()
    lower, upper = product_ends(first.ends(), second.ends())
    low, high = round_outward(lower, upper)
    assert bool((low < lower).all() and (high > upper).all())
