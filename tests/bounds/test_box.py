import torch

from rightreasons.bounds import Box


def test_ends_and_centre_belong_together():
    lower, upper = torch.tensor([[0.0, -1.0]]), torch.tensor([[1.0, 3.0]])
    box = Box.between(lower, upper)
    assert torch.equal(box.lower, lower) and torch.equal(box.upper, upper)
    assert torch.equal(box.magnitude, torch.tensor([[1.0, 3.0]]))
    assert torch.equal(box.interval().lower, lower) and torch.equal(box.interval().upper, upper)


def test_outward_ends_hold_the_ends_they_were_made_of():
    lower = torch.randn(1000) * 10.0 ** torch.randint(-8, 8, (1000,))
    upper = lower + torch.rand(1000) * 10.0 ** torch.randint(-12, 4, (1000,))
    box = Box.between(lower, upper, outward=True)
    center, radius = box.center.double(), box.radius.double()
    assert bool((center - radius <= lower.double()).all())
    assert bool((center + radius >= upper.double()).all())
    low, high = box.ends(outward=True)
    assert bool((low.double() <= center - radius).all())
    assert bool((high.double() >= center + radius).all())


def test_a_point_needs_no_radius():
    point = Box.exact(torch.ones(2, 3))
    assert point.is_exact
    assert point.full_radius().shape == (2, 3)
    assert torch.equal(point.lower, point.upper)
    assert point.reshape((2, 3, 1)).center.shape == (2, 3, 1)
    assert not Box(torch.ones(2, 3), torch.zeros(2, 3)).is_exact


def test_reshaping_moves_both_parts():
    box = Box(torch.arange(12.0).reshape(2, 2, 3), torch.ones(2, 2, 3)).flatten()
    assert box.center.shape == box.radius.shape == (2, 6)
