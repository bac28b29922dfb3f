import pytest
import torch
from torch import nn

from rightreasons.attacks import FGSM, PGD, apgd_pair, strongest_of
from rightreasons.errors import InvalidSettingError


def test_only_those_who_stand_are_attacked_again():
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    with torch.no_grad():  # it bends among the samples
        net[0].weight *= 4
        net[0].bias -= net[0].weight.sum(dim=1) / 2
    x = torch.rand(40, 6)
    with torch.no_grad():
        y = net(x).argmax(dim=1)
    first, second = FGSM(epsilon=0.1), PGD(epsilon=0.2)
    weak, strong = first(net, x, y), second(net, x, y)
    both = strongest_of([first, second], net, x, y)
    assert torch.equal(both.fooled, weak.fooled | strong.fooled)
    assert 0 < weak.fooled.sum() < both.fooled.sum()
    assert torch.equal(both.x[weak.fooled], weak.x[weak.fooled])
    torch.testing.assert_close(both.x[~weak.fooled], strong.x[~weak.fooled])


def test_stops_when_everybody_is_fooled():
    class Never(FGSM):
        def __call__(self, *args, **kwargs):
            raise AssertionError

    net, x = nn.Linear(2, 2), torch.rand(3, 2)
    with torch.no_grad():
        y = 1 - net(x).argmax(dim=1)
    assert strongest_of([FGSM(epsilon=0.1), Never(epsilon=0.1)], net, x, y).fooled.all()


def test_the_pair_is_cross_entropy_and_dlr_with_equal_settings():
    first, second = apgd_pair(epsilon=0.2, norm="l2", num_steps=7, seed=3, num_restarts=2)
    assert (first.loss, second.loss) == ("cross_entropy", "targeted_dlr")
    for attack in (first, second):
        assert (attack.ball.epsilon, attack.ball.norm, attack.num_steps) == (0.2, "l2", 7)
        assert (attack.seed, attack.num_restarts) == (3, 2)


def test_an_attack_is_needed():
    with pytest.raises(InvalidSettingError, match="Expected at least one attack, but got none"):
        strongest_of([], nn.Linear(2, 2), torch.rand(1, 2), torch.tensor([0]))
