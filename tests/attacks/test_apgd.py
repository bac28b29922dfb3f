from functools import partial

import pytest
import torch
from tests.reference import attacks as slow
from torch import nn

from rightreasons.attacks import APGD, PGD, Ball, apgd_pair, strongest_of, targeted_dlr
from rightreasons.attacks.apgd import checkpoints
from rightreasons.errors import InvalidSettingError


def sure_net(seed):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4)).double()
    with torch.no_grad():
        net[0].weight *= 4
        net[2].bias[0] += 5
    return net


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("loss", ["cross_entropy", "targeted_dlr"])
def test_goes_the_way_of_its_slow_twin(norm, loss):
    net = slow.Recording(sure_net(1))
    x, y = torch.rand(3, 5, dtype=torch.float64), torch.zeros(3).long()
    result = APGD(epsilon=0.4, norm=norm, loss=loss, num_steps=15, num_rivals=1)(net, x, y)
    seen = net.seen[2:]  # the first two look at the samples
    assert not result.fooled.any() and len(seen) == 16
    rivals = net.net(x)[:, 1:].argmax(dim=1) + 1
    for n in range(3):
        rule = slow.cross_entropy
        if loss == "targeted_dlr":
            rule = partial(targeted_dlr, rival=rivals[n : n + 1])
        path = slow.apgd_path(
            net.net, x[n], 0, x[n], epsilon=0.4, norm=norm, num_steps=15, criterion=rule
        )
        ours = torch.stack([points[n] for points in seen])
        torch.testing.assert_close(ours, torch.stack(path), rtol=1e-7, atol=1e-9)


def test_steps_are_halved_somewhere_on_that_way():
    net = sure_net(1)
    x = torch.rand(5, dtype=torch.float64)
    path = slow.apgd_path(
        net, x, 0, x, epsilon=0.4, norm="l2", num_steps=15, criterion=slow.cross_entropy
    )
    moves = [(after - before).norm().item() for before, after in zip(path, path[1:], strict=False)]
    assert min(moves[-3:]) < 0.5 * max(moves[:3])


def test_tries_one_rival_after_the_other():
    net = slow.Recording(sure_net(0))
    x, y = torch.rand(2, 5, dtype=torch.float64), torch.zeros(2).long()
    attack = APGD(epsilon=0.01, loss="targeted_dlr", num_steps=1, num_restarts=2)
    attack(net, x, y)
    assert attack.num_runs(4) == 6 and attack.num_runs(30) == 18
    assert len(net.seen) == 1 + 6 * 3  # each looks at the samples, at the start and at the end
    starts = net.seen[2::3]
    assert all(torch.equal(start, x) for start in starts[:3])
    drawn = Ball(epsilon=0.01).draw(x, index=torch.arange(2), seed=1)
    assert all(torch.equal(start, drawn) for start in starts[3:])
    assert APGD(epsilon=0.1).num_runs(30) == 1


def trained(seed, scale):
    torch.manual_seed(seed)
    x = torch.rand(300, 16)
    y = (x - 0.5).matmul(torch.randn(16, 4)).argmax(dim=1)
    net = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 4))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        net[2].weight *= scale
        net[2].bias *= scale
    return net, x, y


def fooled(attack, scale, seed):
    """The number of fooled samples of a net."""
    net, x, y = trained(seed, scale)
    number = int(strongest_of(attack, net, x, y).fooled.sum())
    assert 0.05 < number / len(x) < 1
    return number


@pytest.mark.parametrize(("norm", "epsilon"), [("linf", 0.1), ("l2", 0.3)])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_cross_entropy_alone_is_no_weaker_than_pgd_of_the_same_steps(norm, epsilon, scale):
    settings = {"epsilon": epsilon, "norm": norm, "num_steps": 20}
    apgd, pgd = (
        sum(fooled([attack(**settings)], scale, seed) for seed in range(3))
        for attack in (APGD, PGD)
    )
    assert apgd >= pgd


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("norm", "epsilon"), [("linf", 0.06), ("l2", 0.2)])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_is_never_weaker_than_pgd_of_the_same_budget(norm, epsilon, scale, seed):
    settings = {"epsilon": epsilon, "norm": norm, "num_steps": 20}
    pair = apgd_pair(**settings)  # one search by cross-entropy and three by rivals
    again = [PGD(**settings, num_restarts=4)]
    assert fooled(pair, scale, seed) >= fooled(again, scale, seed)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_net_that_is_surer_is_fooled_as_often(norm):
    attack = [APGD(epsilon=0.1, norm=norm, num_steps=20)]
    assert fooled(attack, 1e3, 0) == pytest.approx(fooled(attack, 1.0, 0), rel=0.05)


def test_checkpoints():
    assert checkpoints(100) == [22, 41, 57, 70, 80, 87, 93, 99]
    assert checkpoints(1) == [1]
    assert checkpoints(5)[0] == 2


def test_settings_are_checked():
    with pytest.raises(InvalidSettingError, match="Expected `loss` to be 'cross_entropy' or"):
        APGD(epsilon=0.1, loss="dlr")
    with pytest.raises(InvalidSettingError, match="Expected `num_rivals` to be a whole number"):
        APGD(epsilon=0.1, num_rivals=0)
