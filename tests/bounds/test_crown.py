import pytest
import torch
from torch import nn

from rightreasons.bounds import Box, forward_bounds, network_of
from rightreasons.bounds.crown import (
    RowSum,
    affine_view,
    chord,
    crown_boxes,
    intersect,
    is_relu,
    join_halves,
    one_hot_chunks,
    parallel_lines,
    relu_lower_slopes,
    row_minima,
    unflatten_rows,
)
from rightreasons.bounds.shape import Reshape


def test_a_linear_net_is_bounded_exactly():
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2)).double()
    box = Box(torch.randn(4, 3).double(), torch.rand(4, 3).double())
    found = crown_boxes(network_of(model, box.center), box, outward=False)[-1]
    merged = model[1].weight @ model[0].weight
    torch.testing.assert_close(found.radius, box.radius @ merged.abs().T)


def test_rows_are_bounded_by_what_samples_reach(small_net, small_box):
    network = network_of(small_net, small_box.center)
    boxes = crown_boxes(network, small_box, outward=True)
    rows = torch.randn(3, 4, 3, dtype=torch.float64)
    minima = row_minima(network, boxes, 5, rows, outward=True)
    for _ in range(200):
        x = small_box.center + small_box.radius * (2 * torch.rand(3, 4) - 1)
        assert bool((torch.einsum("nrk,nk->nr", rows, small_net(x)) >= minima).all())
    at_point = torch.einsum("rk,k->r", rows[0], small_net(small_box.center)[0])
    torch.testing.assert_close(minima[0], at_point)  # the first sample is a point


def test_the_relaxation_of_one_relu_is_the_known_one():
    """One unstable ReLU on [-1, 3]: at most 3 / 4 (v + 1), at least v."""
    model = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1)).double()
    for layer in (model[0], model[2]):
        layer.weight.data.fill_(1)
        layer.bias.data.zero_()
    box = Box(torch.ones(1, 1).double(), 2 * torch.ones(1, 1).double())
    network = network_of(model, box.center)
    boxes = network.forward(box)
    rows = torch.tensor([[[1.0], [-1.0]]]).double()
    assert row_minima(network, boxes, 3, rows, outward=False).tolist() == [[-1, -3]]


def test_intersections_fall_back_where_they_are_empty():
    outer = torch.tensor([0.0, 0.0]), torch.tensor([1.0, 1.0])
    inner = torch.tensor([0.25, 2.0]), torch.tensor([3.0, 1.5])
    lower, upper = intersect(outer, inner)
    assert lower.tolist() == [0.25, 0] and upper.tolist() == [1, 1]


def test_chunks_pick_single_features(monkeypatch):
    import rightreasons.bounds.crown as crown

    monkeypatch.setattr(crown, "_MOST_NUMBERS", 2 * 6 * 2 * 2)
    chunks = list(one_hot_chunks(torch.tensor([5, 0, 3]), torch.zeros(2, 2, 3), 6))
    assert [chunk.shape for chunk in chunks] == [(1, 2, 2, 3), (1, 1, 2, 3)]
    assert chunks[0].flatten(2).argmax(dim=2).tolist() == [[5, 0]]
    pairs = [torch.tensor([[1.0, 2.0, -1.0, -2.0]]), torch.tensor([[3.0, -3.0]])]
    first, second = join_halves(pairs)
    assert first.tolist() == [[1, 2, 3]] and second.tolist() == [[-1, -2, -3]]


def test_small_chunks_give_the_same(monkeypatch, small_net, small_box):
    import rightreasons.bounds.crown as crown

    network = network_of(small_net, small_box.center)
    whole = crown_boxes(network, small_box, outward=False)
    monkeypatch.setattr(crown, "_MOST_NUMBERS", 1)
    parts = crown_boxes(network, small_box, outward=False)
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(one.center, other.center)
        torch.testing.assert_close(one.radius, other.radius)


GRID = torch.linspace(-1, 1, 201).double()[:, None]


def test_lines_lie_below_and_above_relu():
    center, radius = torch.randn(300).double(), torch.rand(300).double()
    lower, upper = center - radius, center + radius
    points = center + GRID * radius
    for outward in (False, True):
        slope, offset = chord(lower, upper, outward=outward)
        assert bool((slope * points + offset >= torch.relu(points) - 1e-12).all())
        flat = torch.where(slope < 1, relu_lower_slopes(lower, upper), slope)
        assert bool((flat * points <= torch.relu(points) + 1e-12).all())
        torch.testing.assert_close(slope * upper + offset, torch.relu(upper))


@pytest.mark.parametrize("layer", [nn.Tanh(), nn.SiLU(), nn.LeakyReLU(0.1), nn.Softplus()])
@pytest.mark.parametrize("outward", [True, False])
def test_bands_hold_the_curve(layer, outward):
    source = Box(2 * torch.randn(1, 300).double(), torch.rand(1, 300).double() * 2)
    output = forward_bounds(layer, source, outward=outward)
    lines = parallel_lines(layer, source, output, outward=outward)
    points = source.center[0] + GRID * source.radius[0]
    strays = (layer(points) - lines.slope[0] * points - lines.middle[0]).abs()
    assert bool((strays <= lines.reach[0] + 1e-12).all())
    assert bool((lines.reach <= output.radius + 1e-12).all())


def test_kinds_are_told_apart():
    assert is_relu(nn.ReLU()) and not is_relu(nn.ReLU6())
    assert affine_view(nn.Linear(2, 2)) is not None
    assert affine_view(Reshape((2,))) == Reshape((2,))
    assert affine_view(nn.ReLU()) is None and affine_view(nn.MaxPool2d(2)) is None


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
