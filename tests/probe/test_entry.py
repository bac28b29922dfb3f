import pytest
import torch
from torch import nn

from rightreasons.bounds import Box
from rightreasons.probe.masked import FoldedEntry, ScatteredEntry, fold_of
from rightreasons.types import Interval

COLUMNS = torch.tensor([1, 4, 7])


@pytest.fixture
def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, 3)).double()


@pytest.fixture
def x():
    return torch.rand(4, 2, 2, 2, dtype=torch.float64)


@pytest.fixture(params=["folded", "scattered"])
def entry(request, net, x):
    if request.param == "scattered":
        return ScatteredEntry(model=net, features=x, columns=COLUMNS)
    fold = fold_of(net, x)
    values = x.flatten(1)[:, COLUMNS]
    return FoldedEntry(fold=fold, entered=fold.layer(x.flatten(1)), values=values, columns=COLUMNS)


def moved(x, values):
    x = x.clone().flatten(1)
    x[:, COLUMNS] = values
    return x.reshape(-1, 2, 2, 2)


def test_entering_values_is_putting_them_into_the_input(entry, net, x):
    values = torch.rand(4, 3, dtype=torch.float64)
    logits = entry.net(entry.enter(values, detached=True))
    torch.testing.assert_close(logits, net(moved(x, values)))
    assert torch.equal(entry.values, x.flatten(1)[:, COLUMNS])


def test_copies_are_stacked_copy_after_copy(entry, net, x):
    values = torch.rand(2, 4, 3, dtype=torch.float64)
    logits = entry.net(entry.enter(values.flatten(0, 1), detached=True))
    expected = torch.cat([net(moved(x, copy)) for copy in values])
    torch.testing.assert_close(logits, expected)


def test_gradients_come_back_to_the_columns(entry, net, x):
    values = torch.rand(4, 3, dtype=torch.float64)
    entered = entry.enter(values, detached=True).detach().requires_grad_()
    (at_entry,) = torch.autograd.grad(entry.net(entered)[:, 0].sum(), entered)
    full = moved(x, values).requires_grad_()
    (expected,) = torch.autograd.grad(net(full)[:, 0].sum(), full)
    torch.testing.assert_close(entry.pull(at_entry), expected.flatten(1)[:, COLUMNS])


def test_a_box_holds_everything_that_enters(entry):
    lower = entry.values - 0.1
    upper = entry.values + torch.tensor([0.0, 0.3, 0.1], dtype=torch.float64)
    center, radius = entry.enter_box(Interval(lower, upper))
    touched = torch.zeros_like(radius)
    for share in torch.rand(50, 4, 3, dtype=torch.float64).round():
        entered = entry.enter(torch.lerp(lower, upper, share), detached=True)
        assert bool(((entered - center).abs() <= radius + 1e-12).all())
        touched = torch.maximum(touched, (entered - center).abs())
    assert bool((touched >= radius - 1e-12).all())  # the corners reach it


def test_bounds_of_gradients_come_back_wider_by_magnitudes(entry, x):
    shape = entry.enter(entry.values, detached=True).shape
    center, radius = torch.randn(shape).double(), torch.rand(shape).double()
    pulled = entry.pull_box(Box(center, radius))
    torch.testing.assert_close(pulled.center, entry.pull(center))
    largest = torch.zeros_like(pulled.radius)
    for _ in range(200):
        masked = entry.pull(center + radius * (2 * torch.rand(shape).double() - 1).sign())
        assert bool(((masked - pulled.center).abs() <= pulled.radius + 1e-12).all())
        largest = torch.maximum(largest, (masked - pulled.center).abs())
    assert bool((largest > 0.5 * pulled.radius).all())


def test_the_weights_graph_can_be_left_out(net, x):
    fold = fold_of(net, x)
    entered = fold.layer(x.flatten(1))
    values = x.flatten(1)[:, COLUMNS]
    entry = FoldedEntry(fold=fold, entered=entered, values=values, columns=COLUMNS)
    assert not entry.enter(values, detached=True).requires_grad
    assert entry.enter(values, detached=False).requires_grad
    assert not entry.pull(entered.detach(), detached=True).requires_grad
    assert entry.pull(entered.detach()).requires_grad
