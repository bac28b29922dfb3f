import pytest
import torch
from tests.reference import explainers as twins

from rightreasons.explainers import GradCAM


@pytest.mark.parametrize(("name", "layer"), [("cnn", "2"), ("cnn", "6"), ("residual", "3")])
def test_equals_its_slow_twin(name, layer, activation, x, y):
    net = twins.make_net(name, activation).eval()
    maps = GradCAM(layers=[layer])(net, x, y)
    for n in range(len(x)):
        expected = twins.class_activation(
            net, net.get_submodule(layer), x[n], int(y[n]), (4, 4), kind="grad_cam"
        )
        torch.testing.assert_close(maps[n, 0], expected)
    assert maps.abs().sum() > 0
