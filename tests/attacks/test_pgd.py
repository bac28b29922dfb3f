import math

import pytest
import torch
from tests.reference import attacks as slow
from torch import nn

from rightreasons.attacks import FGSM, PGD, Ball
from rightreasons.attacks.pgd import step_lengths
from rightreasons.errors import InvalidSettingError


def sure_net():
    """A net that predicts 0 everywhere, so that no sample is fooled."""
    net = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 4)).double()
    with torch.no_grad():
        net[2].bias[0] += 5
    return net


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("schedule", ["constant", "halving"])
def test_goes_the_way_of_its_slow_twin(norm, schedule):
    net = slow.Recording(sure_net())
    x, y = torch.rand(3, 5, dtype=torch.float64), torch.zeros(3).long()
    settings = {"num_steps": 6, "schedule": schedule, "random_start": False}
    result = PGD(epsilon=0.3, norm=norm, **settings)(net, x, y)
    lengths = step_lengths(0.3, 6, schedule=schedule)
    margins = torch.stack([logits_margin(net.net, points) for points in net.seen])
    torch.testing.assert_close(result.margin, margins.amin(dim=0))
    for n in range(3):
        path = slow.pgd_path(net.net, x[n], 0, x[n], epsilon=0.3, norm=norm, lengths=lengths)
        ours = [points[n] for points in net.seen[1:]]  # the first looks at the samples
        torch.testing.assert_close(torch.stack(ours), torch.stack(path))


def logits_margin(net, points):
    logits = net(points).detach()
    return logits[:, 0] - logits[:, 1:].amax(dim=1)


def test_starts_are_drawn_for_each_restart():
    net = slow.Recording(sure_net())
    x, y = torch.rand(2, 5, dtype=torch.float64), torch.zeros(2).long()
    PGD(epsilon=0.1, num_steps=1, num_restarts=3, seed=4)(net, x, y)
    starts = net.seen[1::2]
    assert len(starts) == 3
    for run, start in enumerate(starts):
        expected = Ball(epsilon=0.1).draw(x, index=torch.arange(2), seed=4 + run)
        torch.testing.assert_close(start, expected)


def test_those_who_are_fooled_drop_out():
    class Steep(nn.Module):
        def forward(self, x):
            return torch.stack([x[:, 0] - 0.5, 0.5 - x[:, 0]], dim=1)

    net = slow.Recording(Steep())
    x, y = torch.tensor([[0.55], [0.75], [0.95], [0.1]]), torch.zeros(4).long()
    result = PGD(epsilon=0.3, step_size=0.1, num_steps=4, random_start=False)(net, x, y)
    assert [len(points) for points in net.seen] == [4, 3, 3, 2, 2, 1]
    assert result.fooled.tolist() == [True, True, False, True]


def test_lengths_of_steps():
    assert step_lengths(0.3, 20) == pytest.approx([0.0375] * 20)
    assert step_lengths(0.3, 20, step_size=0.01) == [0.01] * 20
    cosine = step_lengths(0.3, 10, schedule="cosine")
    assert sum(cosine) == pytest.approx(0.75) and cosine == sorted(cosine, reverse=True)
    assert cosine[5] == pytest.approx(cosine[0] * (1 + math.cos(math.pi / 2)) / 2)
    halving = step_lengths(0.3, 8, step_size=8.0, schedule="halving")
    assert halving == [8, 8, 4, 4, 2, 2, 1, 1]
    assert sum(step_lengths(0.3, 3, schedule="halving")) == pytest.approx(0.75)


def test_settings_are_checked():
    with pytest.raises(InvalidSettingError, match="Expected `schedule` to be 'constant' or"):
        PGD(epsilon=0.1, schedule="linear")
    with pytest.raises(InvalidSettingError, match="Expected `num_restarts` .* from 1 to 1"):
        PGD(epsilon=0.1, random_start=False, num_restarts=2)


@pytest.mark.parametrize(("norm", "dual"), [("linf", 1), ("l2", 2)])
def test_nothing_in_the_ball_is_worse_for_a_linear_model_of_two_classes(norm, dual):
    net = nn.Linear(6, 2).double()
    x = torch.rand(200, 6, dtype=torch.float64)
    y = torch.arange(200) % 2
    result = FGSM(epsilon=0.2, norm=norm, valid_range=None)(net, x, y)
    steepest = (net.weight[0] - net.weight[1]).norm(p=dual).item()
    logits = net(x).detach()
    clean = logits.gather(1, y[:, None])[:, 0] - logits.gather(1, 1 - y[:, None])[:, 0]
    right = clean > 0  # the others are fooled where they stand
    torch.testing.assert_close(result.margin[right], clean[right] - 0.2 * steepest)
    assert torch.equal(result.fooled, clean < 0.2 * steepest)
    more = PGD(epsilon=0.2, norm=norm, valid_range=None, num_steps=10)(net, x, y)
    assert torch.equal(more.fooled, result.fooled)


def test_is_one_signed_step():
    net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    x = torch.rand(20, 6, dtype=torch.float64)
    with torch.no_grad():
        y = net(x).argmax(dim=1)
    result = FGSM(epsilon=0.01, valid_range=None)(net, x, y)
    leaf = x.clone().requires_grad_()
    nn.functional.cross_entropy(net(leaf), y, reduction="sum").backward()
    worse = (result.x != x).any(dim=1)
    assert worse.sum() > 10
    torch.testing.assert_close(result.x[worse], (x + 0.01 * leaf.grad.sign())[worse])
