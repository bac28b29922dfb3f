import torch
from torch import nn

from rightreasons.bounds import Box, network_of
from rightreasons.bounds.crown import (
    crown_boxes,
    join_halves,
    intersect,
    one_hot_chunks,
    row_minima,
)


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
