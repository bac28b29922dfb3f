import operator

import pytest
import torch
from torch import nn
from torch.nn import functional

from rightreasons.bounds import input_gradient_bounds, output_bounds
from rightreasons.bounds.operation import (
    COPIES,
    OPERATIONS,
    Call,
    Variable,
    operation_name,
)
from rightreasons.errors import UnsupportedLayerError


def test_names_of_functions_and_methods():
    assert operation_name(torch.relu) == operation_name(functional.relu) == "relu"
    assert operation_name("view") == "view"
    assert operation_name("add_") == operation_name(operator.iadd) == "add"
    assert operation_name(operator.itruediv) == "truediv"
    assert operation_name(functional.max_pool2d) == "max_pool2d"


def test_functions_of_others_have_none():
    def relu(x):
        return x

    assert operation_name(relu) is None
    assert operation_name(getattr) is None


def test_arguments_by_place_or_name():
    x = Variable(1, (2, 3))
    call = Call("mean", (x, 1), {"keepdim": True}, (2, 1))
    assert call.argument(1, "dim") == 1
    assert call.argument(2, "keepdim", False) is True
    assert call.argument(3, "dtype", "none") == "none"
    assert call.input == (2, 3)
    for args, kwargs in (((x, 0, 2, 1), {}), ((x, (0, 2, 1)), {}), ((x,), {"dims": (0, 2, 1)})):
        assert Call("permute", args, kwargs, ()).arguments(1, "dims") == (0, 2, 1)


class Written(nn.Module):
    """A forward pass of one expression; ``weight`` and ``shift`` are parameter and buffer."""

    def __init__(self, expression):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[[2.0, -1.0, 0.5, 1.0]]]))
        self.register_buffer("shift", torch.tensor([0.5, 1.0, -1.0, 3.0]))
        self.expression = expression

    def forward(self, x):
        return self.expression(self, x)


BOUNDED = {  # on (N, 2, 4)
    "add": lambda m, x: x + 1,
    "add reflected": lambda m, x: 1.5 + x,
    "add tensor": lambda m, x: torch.add(x, m.shift, alpha=2),
    "add variables": lambda m, x: torch.add(x, x, alpha=-0.5),
    "sub": lambda m, x: 2 - x,
    "sub tensor": lambda m, x: x - m.shift,
    "sub reflected": lambda m, x: m.shift - x,
    "mul": lambda m, x: x * m.weight * 3,
    "mul of parameters": lambda m, x: (m.weight.abs() + m.shift) * x,
    "mul variables": lambda m, x: x * torch.sigmoid(x),
    "div": lambda m, x: x / 4,
    "div tensor": lambda m, x: torch.div(x, m.shift),
    "neg": lambda m, x: -x,
    "in place": lambda m, x: x.clone().add_(1).mul_(2).relu_(),
    "flatten": lambda m, x: torch.flatten(x, 1),
    "view": lambda m, x: x.view(x.shape[0], -1),
    "reshape": lambda m, x: x.reshape(-1, 8),
    "squeeze": lambda m, x: x.unsqueeze(1).squeeze(1),
    "unflatten": lambda m, x: x.unflatten(2, (2, 2)),
    "permute": lambda m, x: x.permute(0, -1, 1),
    "transpose": lambda m, x: torch.transpose(x, 1, 2),
    "swapaxes": lambda m, x: x.swapaxes(-1, -2),
    "mean": lambda m, x: x.mean(dim=-1),
    "mean axes": lambda m, x: torch.mean(x, (1, 2), keepdim=True),
    "sum": lambda m, x: x.sum(1),
    "cat": lambda m, x: torch.cat([x, 2 * x], -1),
    "concat": lambda m, x: torch.concat((x, x), dim=1),
    "pad": lambda m, x: functional.pad(x, (1, 2)),
    "slice": lambda m, x: x[:, 0, 1:],
    "ellipsis": lambda m, x: x[..., ::2],
    "relu6": lambda m, x: functional.relu6(x),
    "leaky_relu": lambda m, x: functional.leaky_relu(x, negative_slope=0.3),
    "hardtanh": lambda m, x: functional.hardtanh(x, -0.5, 0.5),
    "elu": lambda m, x: functional.elu(x, 0.5),
    "gelu": lambda m, x: functional.gelu(x, approximate="tanh"),
    "silu": lambda m, x: functional.silu(x),
    "softplus": lambda m, x: functional.softplus(x, beta=2),
    "tanh": lambda m, x: x.tanh(),
    "max_pool1d": lambda m, x: functional.max_pool1d(x, 2),
    "max_pool2d": lambda m, x: functional.max_pool2d(x.unsqueeze(1), 2, stride=1, padding=1),
    "avg_pool1d": lambda m, x: functional.avg_pool1d(x, 2, stride=1),
    "avg_pool2d": lambda m, x: functional.avg_pool2d(x.unsqueeze(1), (2, 1), divisor_override=3),
    "adaptive_avg_pool1d": lambda m, x: functional.adaptive_avg_pool1d(x, 3),
    "adaptive_avg_pool2d": lambda m, x: functional.adaptive_avg_pool2d(x.unsqueeze(1), (1, 2)),
    "dropout": lambda m, x: functional.dropout(x, 0.5, m.training).contiguous(),
}
REFUSED = {
    "division by the input": (lambda m, x: 1 / x, "`truediv` .only division by a constant"),
    "rounded division": (lambda m, x: torch.div(x, 2, rounding_mode="floor"), "rounding"),
    "batch not first": (lambda m, x: x.permute(1, 0, 2), "gives .2, 2, 4. for a batch|stay first"),
    "mean of all": (lambda m, x: x + x.mean(), "mean"),
    "mean of the batch": (lambda m, x: x.mean(0, keepdim=True) + x, "gives .1, 2, 4."),
    "batch concatenated": (lambda m, x: torch.cat([x, x]), "gives .4, 2, 4."),
    "constant concatenated": (
        lambda m, x: torch.cat([x, m.weight.expand(x.size(0), 1, 4)], 1), "depend on the input",
    ),
    "other padding": (lambda m, x: functional.pad(x, (1, 1), mode="reflect"), "padding with zeros"),
    "index": (lambda m, x: x[:, [0, 1]], "only slices"),
    "part of the batch": (lambda m, x: x[:1] + x, "getitem"),
    "larger constant": (lambda m, x: x[:, :1] + m.weight.expand(1, 2, 4), "must not enlarge"),
    "constant of samples": (
        lambda m, x: x + m.weight.expand(x.size(0), 2, 4), "same for all samples",
    ),
    "other shapes": (lambda m, x: x * x[:, :1], "of one shape"),
    "always dropping": (lambda m, x: functional.dropout(x, 0.5), "draws at test time"),
    "no rule": (lambda m, x: torch.softmax(x, 1), "`softmax` .has no rule"),
    "a number of values": (lambda m, x: x * x.max().item(), "`item` .gives no tensor"),
    "a matrix": (lambda m, x: x @ m.weight[0].T, "`matmul` .has no rule"),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDED)
def test_calls_are_bounded_as_they_are_evaluated(name):
    model = Written(BOUNDED[name]).double()
    x = torch.randn(3, 2, 4, dtype=torch.float64)
    with torch.no_grad():
        expected = model.eval()(x)
    point = output_bounds(model, x, x, outward=False)
    torch.testing.assert_close(point.lower, expected)
    torch.testing.assert_close(point.upper, expected)
    around = output_bounds(model, x - 0.3, x + 0.3)
    for _ in range(20):
        with torch.no_grad():
            value = model(x + 0.3 * (2 * torch.rand_like(x) - 1))
        assert bool((value >= around.lower).all() and (value <= around.upper).all())


@pytest.mark.parametrize("name", BOUNDED)
def test_gradients_through_calls_are_those_of_autograd(name):
    model = nn.Sequential(Written(BOUNDED[name]), nn.Flatten()).double().eval()
    x = torch.randn(3, 2, 4, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(model(x)[:, 0].sum(), x)
    point = x.detach()
    y = torch.zeros(3, dtype=torch.long)
    bounds = input_gradient_bounds(model, point, point, y, outward=False)
    torch.testing.assert_close(bounds.lower, expected)
    torch.testing.assert_close(bounds.upper, expected)


@pytest.mark.parametrize("name", REFUSED)
def test_other_calls_are_refused_with_the_reason(name):
    expression, words = REFUSED[name]
    x = torch.rand(2, 2, 4)
    with pytest.raises(UnsupportedLayerError, match=words):
        output_bounds(Written(expression), x, x)


def test_constants_are_read_anew():
    model = Written(BOUNDED["mul"])
    x = torch.ones(1, 2, 4)
    before = output_bounds(model, x, x, outward=False).upper
    with torch.no_grad():
        model.weight.mul_(2)
    torch.testing.assert_close(output_bounds(model, x, x, outward=False).upper, 2 * before)
    output_bounds(model, x, x).upper.sum().backward()
    assert float(model.weight.grad.abs().sum()) > 0


def test_no_call_is_both_copied_and_bounded():
    assert not COPIES & set(OPERATIONS)
