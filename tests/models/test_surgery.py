import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from rightreasons.errors import InvalidSettingError, UnsupportedLayerError
from rightreasons.models import lenet, resnet18
from rightreasons.models.surgery import with_softplus


def relus(model):
    return [module for module in model.modules() if isinstance(module, nn.ReLU)]


def test_every_relu_is_replaced_in_a_copy():
    net = resnet18(classes=3, size=32, width=1 / 16).eval()
    before, num_relus = copy.deepcopy(net.state_dict()), len(relus(net))
    smooth = with_softplus(net, 7.0)
    assert not relus(smooth)
    softs = [module for module in smooth.modules() if isinstance(module, nn.Softplus)]
    assert len(softs) == num_relus == len(relus(net))
    assert all(soft.beta == 7.0 and not soft.training for soft in softs)
    assert list(smooth.state_dict()) == list(before)
    assert all(torch.equal(before[key], value) for key, value in smooth.state_dict().items())
    with torch.no_grad():
        smooth.fc.weight.zero_()
    assert torch.equal(net.state_dict()["fc.weight"], before["fc.weight"])


def test_equals_a_net_built_with_softplus_and_goes_to_relu():
    net, x = lenet(), torch.rand(2, 3, 32, 32)
    built = lenet(activation=lambda: nn.Softplus(beta=3.0))
    built.load_state_dict(net.state_dict())
    torch.testing.assert_close(with_softplus(net, 3.0)(x), built(x))
    torch.testing.assert_close(with_softplus(net, 1e5)(x), net(x), rtol=1e-3, atol=1e-4)


def test_a_shared_relu_stays_shared_and_a_lone_one_is_replaced():
    shared = nn.ReLU(inplace=True)
    smooth = with_softplus(nn.Sequential(nn.Linear(2, 2), shared, nn.Linear(2, 2), shared), 2.0)
    assert smooth[1] is smooth[3]
    assert isinstance(with_softplus(nn.ReLU(), 2.0), nn.Softplus)


def test_a_relu_under_another_name_and_hooks_of_the_users_own():
    class Own(nn.ReLU):
        pass

    net = nn.Sequential(nn.Sequential(nn.Linear(2, 2), Own()))
    net[0].register_forward_hook(lambda module, inputs, output: output.numpy())
    assert isinstance(with_softplus(net, 2.0)[0][1], nn.Softplus)


def test_a_net_without_relus_is_copied():
    net = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    smooth = with_softplus(net, 2.0)
    assert smooth is not net
    assert isinstance(smooth[1], nn.Tanh)


@pytest.mark.parametrize("call", [functional.relu, torch.relu, lambda z: z.relu()])
def test_relus_in_code_are_refused(call):
    class Block(nn.Linear):
        def forward(self, x):
            return call(super().forward(x))

    with pytest.raises(UnsupportedLayerError, match="the code of `1` calls one. Write"):
        with_softplus(nn.Sequential(nn.ReLU(), Block(2, 2)), 2.0)
    with pytest.raises(UnsupportedLayerError, match="the code of the model calls one"):
        with_softplus(Block(2, 2), 2.0)


def test_code_that_cannot_be_seen_is_refused():
    class Branches(nn.Linear):
        def forward(self, x):
            return super().forward(x) if x.sum() > 0 else x

    with pytest.raises(UnsupportedLayerError, match="torch.fx can trace, to see ReLUs"):
        with_softplus(Branches(2, 2), 2.0)


@pytest.mark.parametrize("beta", [0.0, -1.0, float("inf"), "sharp"])
def test_beta_out_of_range(beta):
    with pytest.raises(InvalidSettingError, match="`beta` to be a finite number above 0"):
        with_softplus(nn.ReLU(), beta)
