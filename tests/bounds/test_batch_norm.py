import pytest
import torch
from torch import nn

from rightreasons.bounds import Box, linear_map, output_bounds, output_box
from rightreasons.errors import UnsupportedLayerError

KINDS = {
    "1d": (lambda: nn.BatchNorm1d(3), (3,)),
    "1d line": (lambda: nn.BatchNorm1d(3), (3, 4)),
    "2d": (lambda: nn.BatchNorm2d(3), (3, 2, 4)),
    "3d plain": (lambda: nn.BatchNorm3d(3, affine=False), (3, 2, 1, 2)),
}


def make_layer(name):
    make, shape = KINDS[name]
    layer = make().double().eval()
    layer.running_mean.normal_()
    layer.running_var.uniform_(0.5, 2)
    if layer.affine:
        nn.init.normal_(layer.weight)
        nn.init.normal_(layer.bias)
    return layer, shape


@pytest.mark.parametrize("name", KINDS)
def test_the_view_agrees_with_the_layer_at_test_time(name):
    layer, shape = make_layer(name)
    view = linear_map(layer.train())
    layer.eval()
    x = torch.randn(4, *shape, dtype=torch.float64, requires_grad=True)
    output = layer(x)
    torch.testing.assert_close(view.apply(x, bias=True), output)
    torch.testing.assert_close(view.apply(x) + view.offset(len(shape)), output)
    gradient = torch.randn_like(output)
    (pulled,) = torch.autograd.grad(output, x, gradient)
    torch.testing.assert_close(view.transposed(gradient, [shape])[0], pulled)
    assert bool((view.apply(x.abs(), absolute=True) >= view.apply(x).abs() - 1e-12).all())
    assert bool((view.offset_magnitude(len(shape)) >= view.offset(len(shape)).abs()).all())


def test_statistics_may_move_before_the_gradient_is_taken():
    layer, _ = make_layer("1d")
    box = Box(torch.randn(4, 3, dtype=torch.float64), torch.ones(4, 3, dtype=torch.float64))
    bounds = output_box(layer, box)
    layer.train()(torch.randn(4, 3, dtype=torch.float64))
    bounds.radius.sum().backward()
    assert layer.weight.grad is not None


def test_without_statistics_it_is_refused():
    net = nn.Sequential(nn.BatchNorm1d(3, track_running_stats=False))
    with pytest.raises(UnsupportedLayerError, match="BatchNorm1d: it has no running statistics"):
        output_bounds(net, torch.zeros(2, 3), torch.zeros(2, 3))
