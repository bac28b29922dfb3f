import torch

from rightreasons.bounds.crown import RowSum, unflatten_rows


def test_sums_of_minima_over_boxes():
    rows = torch.randn(2, 3, 4, dtype=torch.float64)
    center, radius = (torch.rand(2, 4, dtype=torch.float64) for _ in range(2))
    for outward in (False, True):
        total = RowSum(outward=outward)
        total.add(rows, center, radius)
        total.add(rows, None, radius)
        expected = torch.einsum("nrs,ns->nr", rows, center)
        expected = expected - 2 * torch.einsum("nrs,ns->nr", rows.abs(), radius)
        torch.testing.assert_close(total.total(), expected)
        if outward:
            assert bool((total.total() < expected).all())


def test_shared_rows_serve_all_samples():
    rows = torch.randn(1, 3, 2, 2)
    center = torch.randn(5, 2, 2)
    shared, single = RowSum(outward=False), RowSum(outward=False)
    shared.add(rows, center, None)
    single.add(rows.expand(5, 3, 2, 2), center, None)
    torch.testing.assert_close(shared.total(), single.total())


def test_an_empty_sum_is_zero():
    assert RowSum(outward=True).total().item() == 0


def test_rows_get_their_axes_back():
    assert unflatten_rows(torch.zeros(6, 4), (2, 3)).shape == (2, 3, 4)
