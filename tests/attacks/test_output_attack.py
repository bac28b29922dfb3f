import copy
import math

import pytest
import torch
from torch import nn

from rightreasons.attacks import APGD, FGSM, PGD, Attacked
from rightreasons.attacks.output_attack import (
    Record,
    climb_slope,
    cross_entropy,
    log_odds,
    logits_at_test_time,
    ranked_rivals,
    targeted_dlr,
)
from rightreasons.errors import InvalidBatchError, InvalidSettingError

# The contract of every attack on predictions.


# name: how to make it for a norm and a radius
ATTACKS = {
    "fgsm": lambda **settings: FGSM(**settings),
    "pgd": lambda **settings: PGD(num_steps=5, num_restarts=2, **settings),
    "pgd cosine": lambda **settings: PGD(num_steps=5, schedule="cosine", **settings),
    "apgd": lambda **settings: APGD(num_steps=8, num_restarts=2, **settings),
    "apgd dlr": lambda **settings: APGD(num_steps=5, loss="targeted_dlr", **settings),
}
BALLS = {"linf": 0.1, "l2": 0.4}


@pytest.fixture(params=ATTACKS)
def make(request):
    return ATTACKS[request.param]


@pytest.fixture(scope="module")
def trained():
    """A small net, trained a little, in train mode; 60 samples of four classes."""
    torch.manual_seed(0)
    x = torch.rand(60, 1, 4, 4)
    y = (x.flatten(1) - 0.5).matmul(torch.randn(16, 4)).argmax(dim=1)
    net = nn.Sequential(
        nn.Flatten(), nn.Linear(16, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 4)
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(40):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    optimizer.zero_grad()
    return net, x, y


@pytest.mark.parametrize("norm", BALLS)
def test_stays_in_ball_and_range_and_says_who_is_fooled(make, trained, norm):
    net, x, y = trained
    result = make(norm=norm, epsilon=BALLS[norm])(net, x, y)
    moves = (result.x - x).flatten(1)
    lengths = moves.abs().amax(dim=1) if norm == "linf" else moves.norm(dim=1)
    assert (lengths <= BALLS[norm] * (1 + 1e-5)).all()
    assert result.x.min() >= 0 and result.x.max() <= 1
    with torch.no_grad():
        logits = copy.deepcopy(net).eval()(result.x)
        before = copy.deepcopy(net).eval()(x).argmax(dim=1)
    assert torch.equal(result.fooled, logits.argmax(dim=1) != y)
    own = logits.gather(1, y[:, None])[:, 0]
    others = logits.scatter(1, y[:, None], -torch.inf).amax(dim=1)
    torch.testing.assert_close(result.margin, own - others, rtol=1e-4, atol=1e-5)
    assert result.fooled.sum() > (before != y).sum()
    assert torch.equal(result.x[before != y], x[before != y])  # fooled where they stand
    assert not result.x.requires_grad


def test_leaves_model_and_samples_as_they_were(make, trained):
    net, x, y = trained
    net[1].bias.grad = torch.ones(12)
    state = {name: value.clone() for name, value in net.state_dict().items()}
    kept, random_state = x.clone(), torch.get_rng_state()
    make(epsilon=0.1)(net, x, y)
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())
    assert all(module.training for module in net.modules())
    assert torch.equal(net[1].bias.grad, torch.ones(12))
    assert all(p.grad is None for name, p in net.named_parameters() if name != "1.bias")
    assert torch.equal(x, kept) and not x.requires_grad
    assert torch.equal(torch.get_rng_state(), random_state)
    net[1].bias.grad = None


def test_does_not_depend_on_batch_or_gradient_mode(make, trained):
    net, x, y = trained
    attack = make(epsilon=0.1)
    whole = attack(net, x, y)
    attack.max_rows = 7
    with torch.no_grad():
        parts = attack(net, x, y)
    torch.testing.assert_close(parts.x, whole.x, rtol=0, atol=1e-4)
    assert torch.equal(parts.fooled, whole.fooled)
    some = torch.tensor([40, 3, 17])
    alone = attack(net, x[some], y[some], index=some)
    assert torch.equal(alone.fooled, whole.fooled[some])


def test_without_a_range_inputs_go_anywhere(make, trained):
    net, x, y = trained
    result = make(epsilon=0.3, valid_range=None)(net, x, y)
    assert result.x.min() < 0 or result.x.max() > 1


def test_no_samples_and_token_ids(make, trained):
    net, x, y = trained
    result = make(epsilon=0.1)(net, x[:0], y[:0])
    assert result.x.shape == (0, 1, 4, 4) and result.fooled.shape == (0,)
    with pytest.raises(InvalidBatchError, match="Expected floating point `x` to move"):
        make(epsilon=0.1)(net, x.long(), y)


def test_settings_are_checked():
    with pytest.raises(InvalidSettingError, match="Expected `num_restarts` to be a whole number"):
        PGD(epsilon=0.1, num_restarts=0)
    with pytest.raises(InvalidSettingError, match="Expected `seed` to be a whole number from 0"):
        APGD(epsilon=0.1, seed=-1)
    with pytest.raises(InvalidSettingError, match="Expected `max_rows` to be a whole number"):
        FGSM(epsilon=0.1, max_rows=0)


X = torch.zeros(3, 1)
Y = torch.tensor([0, 0, 1])


def test_a_record_keeps_the_smallest_margin_and_what_fools():
    record = Record(X)
    rows = torch.arange(3)
    fooled = record.add(rows, X + 1, torch.tensor([[3.0, 1.0], [3.0, 1.0], [3.0, 1.0]]), Y)
    assert fooled.tolist() == [False, False, True]
    rows = rows[~fooled]
    fooled = record.add(rows, X[rows] + 2, torch.tensor([[4.0, 1.0], [3.0, 2.0]]), Y[rows])
    assert not fooled.any()
    outcome = record.result()
    assert outcome.x.flatten().tolist() == [1, 2, 1]
    assert outcome.margin.tolist() == [2, 1, -2]
    assert outcome.fooled.tolist() == [False, False, True]


def test_ties_fool_only_if_the_prediction_changes():
    record = Record(X)
    fooled = record.add(torch.arange(3), X + 1, torch.ones(3, 2), Y)
    assert fooled.tolist() == [False, False, True]  # the first of equals is predicted


def test_no_number_fools_whatever_the_label():
    record = Record(X)
    fooled = record.add(torch.arange(3), X + 1, torch.full((3, 2), torch.nan), Y)
    assert fooled.all() and record.result().margin.isnan().all()


def test_the_stronger_of_two_is_taken_sample_by_sample():
    def attacked(value, fooled, margin):
        n = len(margin)
        return Attacked(
            torch.full((n, 1), value), torch.tensor(fooled), torch.tensor(margin).float()
        )

    first = attacked(1.0, [False, True, False], [2, -1, 3])
    second = attacked(2.0, [False, True], [4, -2])
    both = first.stronger(torch.tensor([0, 2]), second)
    assert both.x.flatten().tolist() == [1, 1, 2]
    assert both.fooled.tolist() == [False, True, True]
    assert both.margin.tolist() == [2, -1, -2]
    assert first.x.flatten().tolist() == [1, 1, 1]


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
