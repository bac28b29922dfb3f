import pytest
import torch
from torch import nn
from torch.nn import functional

from rightreasons.bounds import linear_map
from rightreasons.bounds.shape import Pad, Permute, Reshape, Select

LAYERS = {
    "reshape": (Reshape((6, 2)), lambda x: x.reshape(3, 6, 2)),
    "permute": (Permute((0, 3, 1, 2)), lambda x: x.permute(0, 3, 1, 2)),
    "pad": (Pad((1, 2, 0, -1)), lambda x: functional.pad(x, (1, 2, 0, -1))),
    "select": (Select((slice(None, None, 2), 1)), lambda x: x[:, ::2, 1]),
    "select back": (Select((slice(None), slice(1, 2), -1)), lambda x: x[:, :, 1:2, -1]),
}


@pytest.mark.parametrize("name", LAYERS)
def test_the_layer_does_what_the_call_does_and_back(name):
    layer, call = LAYERS[name]
    x = torch.randn(3, 3, 2, 2, requires_grad=True)
    output = call(x)
    assert torch.equal(layer.apply(x, bias=True), output)
    gradient = torch.randn_like(output)
    (pulled,) = torch.autograd.grad(output, x, gradient)
    assert torch.equal(layer.transposed(gradient, [(3, 2, 2)], absolute=True)[0], pulled)
    assert layer.num_terms([(3, 2, 2)]) == 0
    assert layer.offset(3) is None and layer.offset_magnitude(3) is None


def test_zero_padding_layers_are_pads():
    assert linear_map(nn.ZeroPad2d((1, 2, 3, 4))) == Pad((1, 2, 3, 4))
