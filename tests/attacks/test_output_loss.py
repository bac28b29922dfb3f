import math

import pytest
import torch
from torch import nn

from rightreasons.attacks.output_attack import (
    climb_slope,
    cross_entropy,
    log_odds,
    logits_at_test_time,
    ranked_rivals,
    targeted_dlr,
)


@pytest.mark.parametrize("num_classes", [2, 3, 4, 7])
def test_the_ratio_equals_a_loop(num_classes):
    logits = torch.randn(8, num_classes, dtype=torch.float64)
    y, rival = torch.arange(8) % num_classes, (torch.arange(8) + 1) % num_classes
    values = []
    for row, own, other in zip(logits.tolist(), y.tolist(), rival.tolist(), strict=True):
        z = sorted(row, reverse=True)
        below = {2: None, 3: z[-1]}.get(num_classes, sum(z[2:4]) / 2)
        values.append((row[other] - row[own]) / (1 if below is None else z[0] - below))
    expected = torch.tensor(values).double()
    torch.testing.assert_close(targeted_dlr(logits, y, rival), expected)


def test_the_ratio_is_the_same_for_surer_models_and_finite_for_equal_logits():
    logits, y, rival = torch.randn(4, 5), torch.zeros(4).long(), torch.ones(4).long()
    small, large = (targeted_dlr(scale * logits, y, rival) for scale in (1.0, 1000.0))
    torch.testing.assert_close(small, large)
    assert targeted_dlr(torch.ones(4, 5), y, rival).isfinite().all()


@pytest.mark.parametrize("num_classes", [2, 5])
def test_the_log_odds_equal_a_loop_and_go_the_way_of_cross_entropy(num_classes):
    logits = torch.randn(8, num_classes, dtype=torch.float64).requires_grad_()
    y = torch.arange(8) % num_classes
    values = []
    for row, own in zip(logits.tolist(), y.tolist(), strict=True):
        others = sum(math.exp(z) for k, z in enumerate(row) if k != own)
        values.append(math.log(others / math.exp(row[own])))
    odds, losses = log_odds(logits, y), cross_entropy(logits, y)
    torch.testing.assert_close(odds, torch.tensor(values).double())
    torch.testing.assert_close(nn.functional.softplus(odds), losses)
    (way,) = torch.autograd.grad(odds.sum(), logits)
    (slope,) = torch.autograd.grad(losses.sum(), logits)
    torch.testing.assert_close(odds.sigmoid()[:, None] * way, slope)


@pytest.mark.parametrize("ahead", [20.0, 200.0, 1e6])
def test_the_log_odds_rise_where_single_precision_has_no_cross_entropy(ahead):
    logits, y = torch.tensor([[ahead, 0.0, 0.0]], requires_grad=True), torch.tensor([0])
    odds, losses = log_odds(logits, y), cross_entropy(logits, y)
    assert losses.item() == 0 and odds.item() == pytest.approx(math.log(2) - ahead)
    assert torch.autograd.grad(losses.sum(), logits)[0][0, 0] == 0
    assert torch.autograd.grad(odds.sum(), logits)[0].tolist() == [[-1.0, 0.5, 0.5]]


def test_rivals_in_falling_order_without_the_label():
    logits = torch.tensor([[1.0, 4.0, 3.0, 2.0]])
    assert ranked_rivals(logits, torch.tensor([2])).tolist() == [[1, 3, 0]]
    assert ranked_rivals(logits, torch.tensor([0])).tolist() == [[1, 2, 3]]


def test_slopes_are_those_at_test_time_and_touch_nothing():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    x, y = torch.rand(5, 3), torch.tensor([0, 1, 0, 1, 1])
    state = {name: value.clone() for name, value in net.state_dict().items()}
    with torch.no_grad():  # as metrics are measured
        logits, values, slope = climb_slope(net, x, y, cross_entropy)
        assert torch.equal(logits_at_test_time(net, x, y), logits)
    assert net.training and all(parameter.grad is None for parameter in net.parameters())
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())
    leaf = x.clone().requires_grad_()
    losses = nn.functional.cross_entropy(net.eval()(leaf), y, reduction="none")
    torch.testing.assert_close(values, losses.detach())
    torch.testing.assert_close(slope, torch.autograd.grad(losses.sum(), leaf)[0])
    assert not any(part.requires_grad for part in (logits, values, slope))
