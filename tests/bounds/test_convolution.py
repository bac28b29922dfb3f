import pytest
import torch
from torch import nn

from rightreasons.bounds import linear_map, output_bounds
from rightreasons.errors import UnsupportedLayerError

pytestmark = pytest.mark.filterwarnings(
    "ignore:Using padding='same'"
)  # PyTorch makes a padded copy

LAYERS = {
    "conv1d": (lambda: nn.Conv1d(2, 4, 3, stride=2, padding=1), (2, 8)),
    "conv2d": (lambda: nn.Conv2d(2, 4, 3, stride=(1, 2), padding=(0, 1), groups=2), (2, 7, 6)),
    "dilated": (lambda: nn.Conv2d(2, 3, 2, dilation=(2, 3), bias=False), (2, 6, 7)),
    "left over": (lambda: nn.Conv2d(2, 3, 3, stride=3), (2, 8, 7)),
    "same": (lambda: nn.Conv2d(2, 3, (2, 4), padding="same"), (2, 5, 5)),
    "same odd": (lambda: nn.Conv2d(2, 3, 3, padding="same", dilation=2), (2, 5, 5)),
    "valid": (lambda: nn.Conv2d(2, 3, 3, padding="valid"), (2, 5, 5)),
    "conv3d": (lambda: nn.Conv3d(1, 2, 2, padding=1), (1, 3, 4, 3)),
    "transposed 1d": (lambda: nn.ConvTranspose1d(2, 4, 3, stride=2, groups=2), (2, 5)),
    "transposed 2d": (
        lambda: nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1, output_padding=1), (2, 4, 3),
    ),
    "transposed wide": (
        lambda: nn.ConvTranspose2d(2, 3, 2, stride=1, dilation=3, output_padding=2), (2, 4, 3),
    ),
    "transposed 3d": (lambda: nn.ConvTranspose3d(1, 2, 2), (1, 2, 3, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_the_view_agrees_with_the_layer(name):
    make, shape = LAYERS[name]
    layer = make().double()
    view = linear_map(layer)
    x = torch.randn(3, *shape, dtype=torch.float64, requires_grad=True)
    output = layer(x)
    torch.testing.assert_close(view.apply(x, bias=True), output)
    offset = view.offset(len(shape))
    without = view.apply(x)
    torch.testing.assert_close(without if offset is None else without + offset, output)
    gradient = torch.randn_like(output)
    (pulled,) = torch.autograd.grad(output, x, gradient)
    torch.testing.assert_close(view.transposed(gradient, [shape])[0], pulled)


@pytest.mark.parametrize("name", LAYERS)
def test_absolute_products_are_those_of_a_layer_with_absolute_weights(name):
    make, shape = LAYERS[name]
    layer = make().double()
    view = linear_map(layer)
    x = torch.rand(2, *shape, dtype=torch.float64, requires_grad=True)
    found = view.apply(x, absolute=True)
    layer.weight.data.abs_()
    layer.bias = None
    expected = layer(x)
    torch.testing.assert_close(found, expected)
    gradient = torch.rand_like(expected)
    (pulled,) = torch.autograd.grad(expected, x, gradient)
    layer.weight.data.neg_()
    torch.testing.assert_close(
        linear_map(layer).transposed(gradient, [shape], absolute=True)[0], pulled
    )


def test_terms_are_counted_in_both_directions():
    assert linear_map(nn.Conv2d(2, 8, 3)).num_terms([(2, 5, 5)]) == 8 * 9
    assert linear_map(nn.Conv2d(8, 2, 3, groups=2)).num_terms([(8, 5, 5)]) == 4 * 9
    assert linear_map(nn.ConvTranspose2d(6, 2, 2)).num_terms([(6, 5, 5)]) == 6 * 4


def test_other_padding_is_refused():
    net = nn.Sequential(nn.Conv1d(1, 1, 3, padding=1, padding_mode="circular"))
    with pytest.raises(UnsupportedLayerError, match="padding_mode='circular' is not bounded"):
        output_bounds(net, torch.zeros(1, 1, 5), torch.zeros(1, 1, 5))
