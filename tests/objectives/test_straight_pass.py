import pytest
import torch
from torch import nn
from torch.nn import functional

from rightreasons.objectives.fast_second_order import straight_pass


class Calls(nn.Module):
    """ReLUs, poolings and Softplus in all the ways they are called."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.pool, self.head = nn.MaxPool2d(3, stride=2, padding=1), nn.Linear(4, 3)

    def forward(self, x):
        x = self.pool(functional.relu(self.first(x)))
        x = torch.relu(self.second(x)).relu()
        x = functional.max_pool2d(x, 2, ceil_mode=True)
        x = functional.softplus(functional.relu(x, inplace=True) - 0.1, beta=3.0)
        return self.head(nn.Softplus(threshold=50)(x).flatten(1))


def gradients(model, x, straight):
    x = x.clone().requires_grad_()
    if straight:
        with straight_pass():
            logits = model(x)
    else:
        logits = model(x)
    (slope,) = torch.autograd.grad(logits.exp().sum(), x, create_graph=True)
    loss = slope.square().sum() + logits.square().sum()
    return logits, [slope, *torch.autograd.grad(loss, list(model.parameters()))]


def test_values_and_both_derivatives_are_the_same():
    model, x = Calls().double(), torch.randn(3, 2, 4, 4, dtype=torch.float64)
    ours, ours_slopes = gradients(model, x, True)
    plain, plain_slopes = gradients(model, x, False)
    assert torch.equal(ours, plain)
    for left, right in zip(ours_slopes, plain_slopes, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("straight", [True, False])
def test_no_zeros_go_back_through_the_net(straight):
    x = torch.randn(1, 1, 4, 4, requires_grad=True)
    entered = x * 1.0
    if straight:
        with straight_pass():
            y = functional.max_pool2d(functional.relu(entered), 2)
    else:
        y = functional.max_pool2d(functional.relu(entered), 2)
    (slope,) = torch.autograd.grad(y.sum(), entered, torch.ones(()), create_graph=True)
    reached = slope.requires_grad and (
        torch.autograd.grad(slope.sum(), entered, allow_unused=True)[0] is not None
    )
    assert reached != straight


@pytest.mark.parametrize("bends", [False, True])
def test_the_way_back_through_a_pass_is_gone_only_where_something_bends(bends):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 2, 1), nn.MaxPool2d(2))
    x = torch.randn(1, 1, 6, 6, requires_grad=True)
    with straight_pass():
        first = model[0](x)
        y = model[1:](first)
        value = y.square().sum() if bends else y.sum()
        (slope,) = torch.autograd.grad(value, x, create_graph=True)
    reached = []
    first.register_hook(reached.append)
    torch.autograd.grad(slope.square().sum(), model[0].weight)
    assert any(gradient is not None for gradient in reached) == bends


def test_what_is_no_number_stays_none():
    x = torch.tensor([float("nan"), float("-inf"), float("inf"), -0.0])
    with straight_pass():
        straight = functional.relu(x)
    assert torch.equal(straight.nan_to_num(7.0, 8.0), functional.relu(x).nan_to_num(7.0, 8.0))
    small = torch.randn(2, 4, 4)  # an image without a batch
    with straight_pass():
        assert torch.equal(functional.max_pool2d(small, 2), nn.MaxPool2d(2)(small))


def test_third_derivatives_of_softplus_are_the_same():
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    for straight in (True, False):
        if straight:
            with straight_pass():
                value = functional.softplus(x, beta=2.0)
        else:
            value = functional.softplus(x, beta=2.0)
        slopes = []
        for _ in range(3):
            (value,) = torch.autograd.grad(value.sum(), x, create_graph=True)
            slopes.append(value.detach())
        if straight:
            ours = slopes
    for left, right in zip(ours, slopes, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-12)
