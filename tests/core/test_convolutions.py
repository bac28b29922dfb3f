import pytest
import torch
from torch import nn

from rightreasons.core import convolutions
from rightreasons.core.convolutions import constant_weights, convolve_in_parts

LAYERS = {
    "plain": {"kernel_size": 3},
    "padded": {"kernel_size": (3, 5), "padding": (1, 2), "bias": False},
    "strided": {"kernel_size": 3, "stride": 2, "padding": 1},
    "dilated in groups": {"kernel_size": 3, "dilation": (2, 1), "groups": 2},
    "same": {"kernel_size": 3, "padding": "same"},
}


def derivatives(net, x):
    """The output, the gradient of a curved function of it, and the gradient of its size."""
    x = x.clone().requires_grad_()
    out = net(x)
    (first,) = torch.autograd.grad(out.pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    return out.detach(), first.detach(), second


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("settings", LAYERS.values(), ids=LAYERS)
def test_derivatives_at_the_input_are_pytorch_s(settings, dtype, monkeypatch):
    monkeypatch.setattr(convolutions, "_TABLE_BYTES", 2**12)  # parts of a sample or two
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(2, 4, **settings), nn.Tanh(), nn.Conv2d(4, 2, 2)).to(dtype)
    x = torch.rand(5, 2, 9, 8, dtype=dtype)
    expected = derivatives(net, x)
    with constant_weights():
        found = derivatives(net, x)
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-5 if dtype == torch.float32 else 1e-12)


def test_weights_get_no_graph_and_no_gradient():
    layer, x = nn.Conv2d(1, 2, 3), torch.rand(1, 1, 5, 5, requires_grad=True)
    with constant_weights():
        out = layer(x)
    assert out.requires_grad
    assert torch.autograd.grad(out.sum(), layer.weight, allow_unused=True) == (None,)


def test_other_inputs_go_the_usual_way():
    layer = nn.Conv2d(1, 2, 3)
    for x in (torch.rand(1, 1, 5, 5), torch.rand(1, 5, 5, requires_grad=True)):
        with constant_weights():
            out = layer(x)
        assert torch.equal(out, layer(x))
        assert out.grad_fn is not None
        assert "Convolve" not in out.grad_fn.name()
    x = torch.rand(1, 1, 5, 5, requires_grad=True)
    with constant_weights(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16


@pytest.mark.parametrize("size", [0, 1, 7])
def test_parts_make_up_the_whole(size, monkeypatch):
    monkeypatch.setattr(convolutions, "_TABLE_BYTES", 2**12)
    x, weight = torch.rand(size, 2, 9, 9).double(), torch.rand(3, 2, 3, 3).double()
    found = convolve_in_parts(x, weight, padding=1)
    assert torch.equal(found, torch.conv2d(x, weight, padding=1))
