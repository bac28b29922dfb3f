import pytest
import torch
from tests.reference import explainers as twins

from rightreasons.explainers import XGradCAM


@pytest.mark.parametrize(("name", "layer"), [("cnn", "2"), ("cnn", "6"), ("residual", "3")])
def test_equals_its_slow_twin(name, layer, activation, x, y):
    net = twins.make_net(name, activation).eval()
    maps = XGradCAM(layers=[layer])(net, x, y)
    for n in range(len(x)):
        expected = twins.class_activation(
            net, net.get_submodule(layer), x[n], int(y[n]), (4, 4), kind="xgrad_cam"
        )
        torch.testing.assert_close(maps[n, 0], expected)
    assert maps.abs().sum() > 0


def test_a_silent_map_gets_no_weight():
    activation = torch.zeros(1, 2, 2, 2)
    activation[0, 1] = 1
    gradient = torch.ones(1, 2, 2, 2)
    weights = XGradCAM().channel_weights(activation.requires_grad_(), gradient)
    assert weights.tolist() == [[0, 1]]
    (slopes,) = torch.autograd.grad(weights.sum(), activation)
    assert torch.isfinite(slopes).all()
