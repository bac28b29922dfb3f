import pytest
import torch
from tests.reference import explainers as twins
from torch import nn
from torch.nn import functional

from rightreasons.errors import DoubleBackwardError, UnsupportedLayerError
from rightreasons.explainers import GuidedBackprop, InputGradient


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_equals_its_slow_twin(name, activation, x, y):
    net = twins.make_net(name, activation).eval()
    attribution = GuidedBackprop()(net, x, y)
    for n in range(len(x)):
        expected = twins.guided_backprop(list(net), x[n], int(y[n]))
        torch.testing.assert_close(attribution[n], expected, rtol=1e-5, atol=1e-8)
    assert not torch.allclose(attribution, InputGradient()(net, x, y))


CALLS = {
    "functional": functional.relu,
    "in place": lambda z: functional.relu(z.clone(), inplace=True),
    "torch": torch.relu,
    "method": lambda z: z.relu(),
    "method in place": lambda z: z.clone().relu_(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_activations_in_code_are_guided_like_modules(call, x, y):
    class Calls(nn.Module):
        def __init__(self, net):
            super().__init__()
            self.net = net

        def forward(self, x):
            return self.net[5](call(self.net[3](call(self.net[1](x.flatten(1))))))

    net = twins.mlp(nn.ReLU)
    expected = GuidedBackprop()(net, x, y)
    torch.testing.assert_close(GuidedBackprop()(Calls(net), x, y), expected)


@pytest.mark.parametrize(
    "activation", [nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Mish, nn.SELU]
)
def test_relatives_of_relu_are_guided(activation, x, y):
    net = nn.Sequential(nn.Flatten(), nn.Linear(32, 8), activation(), nn.Linear(8, 3)).double()
    hidden = net[:2](x).detach().requires_grad_()
    (slopes,) = torch.autograd.grad(net[2](hidden).sum(), hidden)
    expected = (net[3].weight[y].clamp(min=0) * slopes) @ net[1].weight
    torch.testing.assert_close(GuidedBackprop()(net, x, y).flatten(1), expected.detach())


def test_tanh_passes_the_true_gradient(x, y):
    net = twins.mlp(nn.Tanh)
    torch.testing.assert_close(GuidedBackprop()(net, x, y), InputGradient()(net, x, y))


def test_the_model_is_not_guided_afterwards(x, y):
    net = twins.mlp(nn.ReLU)
    expected = InputGradient()(net, x, y)
    GuidedBackprop()(net, x, y, create_graph=True).sum().backward()
    torch.testing.assert_close(InputGradient()(net, x, y), expected)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_models_are_refused_for_measuring_too(x, y):
    net = twins.mlp(nn.ReLU)
    net.compile(backend="eager")
    with pytest.raises(DoubleBackwardError, match="compiled by torch.compile"):
        GuidedBackprop()(net, x, y)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripted_layers_are_refused(x, y):
    net = nn.Sequential(nn.Flatten(), torch.jit.script(nn.Linear(32, 3).double()))
    with pytest.raises(UnsupportedLayerError, match="`1` is scripted. Give the original"):
        GuidedBackprop()(net, x, y)
