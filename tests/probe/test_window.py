"""Gradients of masked pixels through windows equal those that autograd gives for the input."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

import rightreasons as rr
from rightreasons.core.model_modes import record_outputs
from rightreasons.probe.probe import Probe
from rightreasons.probe.window import Window, find_trunk

NETS = {
    "lenet": lambda: rr.models.lenet(width=0.1, size=32),
    "odd": lambda: nn.Sequential(
        nn.Sequential(nn.Conv2d(3, 4, (3, 5), padding=(0, 2), bias=False), nn.ReLU()),
        nn.AvgPool2d(3),
        nn.Identity(),
        nn.Conv2d(4, 3, 2, padding=1),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.LazyLinear(4),
    ),
    "no activation": lambda: nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.Conv2d(4, 2, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.LazyLinear(4),
    ),
    "batch statistics behind": lambda: nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(4, 4, 3),
        nn.BatchNorm2d(4),
        nn.Softplus(),
        nn.Flatten(),
        nn.LazyLinear(4),
    ),
}


def made(name: str) -> tuple[nn.Module, rr.Batch]:
    torch.manual_seed(0)
    model = NETS[name]()
    x = torch.rand(6, 3, 32, 32).round(decimals=1)
    x[:3, :, 5:20] = 0.5  # even areas, in which maxima are tied
    model(x)
    mask = torch.zeros(6, 1, 32, 32)
    corners = [(0, 0), (0, 28), (28, 0), (28, 28), (9, 13)]  # the last sample has no mask
    for number, (row, column) in enumerate(corners):
        mask[number, :, row : row + 4 - number % 2, column : column + 3] = 1 - number / 10
    batch = rr.Batch(x=x, y=torch.arange(6) % 4, mask=mask)
    return model.double(), batch.with_(x=x.double(), mask=mask.double())


def penalty_by_autograd(model: nn.Module, batch: rr.Batch) -> torch.Tensor:
    x = batch.x.clone().requires_grad_()
    losses = functional.cross_entropy(model(x), batch.y, reduction="none")
    (gradient,) = torch.autograd.grad(losses.sum(), x, create_graph=True)
    return (batch.mask * gradient).square().flatten(1).sum(dim=1)


@pytest.mark.parametrize("name", NETS)
def test_values_and_gradients_equal_those_of_autograd(name):
    model, batch = made(name)
    trunk = find_trunk(model, batch.x, batch.mask)
    assert trunk is not None
    assert sum(isinstance(layer, nn.Conv2d) for layer in trunk.layers) >= 2
    probe = Probe(model, batch, needs_gradient="inside")
    assert not probe.features.requires_grad
    ours, expected = rr.objectives.R3()(probe), penalty_by_autograd(model, batch)
    assert float(expected.detach().sum()) > 0
    torch.testing.assert_close(ours, expected, rtol=1e-9, atol=0)
    weights = list(model.parameters())
    slopes = [
        torch.autograd.grad(one.sum(), weights, allow_unused=True) for one in (ours, expected)
    ]
    for slope, right in zip(*slopes, strict=True):
        zero = torch.zeros(())
        torch.testing.assert_close(
            zero if slope is None else slope,
            zero if right is None else right,
            rtol=1e-8,
            atol=1e-14,
        )


def test_frozen_layers_may_be_in_a_trunk():
    model, batch = made("lenet")
    expected = penalty_by_autograd(model, batch).sum()
    model[0].requires_grad_(False)
    probe = Probe(model, batch, needs_gradient="inside")
    torch.testing.assert_close(rr.objectives.R3()(probe).sum(), expected, rtol=1e-9, atol=0)


class ConvolutionWork(TorchDispatchMode):
    """Counts the numbers in the inputs of backward passes of convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.convolution_backward.default:
            self.total += args[0].numel()
        return func(*args, **(kwargs or {}))


def test_a_step_does_less(monkeypatch):
    def work() -> int:
        model, batch = made("lenet")
        with ConvolutionWork() as counter:
            rr.recipes.r3()(model, batch).backward()
        return counter.total

    small = work()
    monkeypatch.setattr("rightreasons.probe.probe.find_trunk", lambda *_: None)
    assert small < 0.6 * work()


def hooked(model: nn.Module) -> nn.Module:
    model[1].register_forward_hook(lambda module, inputs, output: 2 * output)
    return model


def used_again(model: nn.Module) -> nn.Module:
    model.append(nn.Sequential(nn.Unflatten(1, (3, 2, 2)), model[0], nn.Flatten()))
    return model


@pytest.mark.parametrize(("change", "left"), [(hooked, 1), (used_again, 0)])
def test_layers_that_do_more_than_their_class_says_are_left_to_autograd(change, left):
    torch.manual_seed(0)
    model = change(nn.Sequential(nn.Conv2d(3, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 12)))
    x, mask = torch.rand(2, 3, 8, 8), torch.zeros(2, 1, 8, 8)
    mask[..., :2, :2] = 1
    trunk = find_trunk(model, x, mask)
    assert len(trunk.names if trunk else ()) == left


def test_large_masks_and_other_nets_are_left_to_autograd():
    model, batch = made("lenet")
    assert find_trunk(model, batch.x, torch.ones_like(batch.mask)) is None
    assert find_trunk(nn.Sequential(nn.Flatten(), model[-1]), batch.x, batch.mask) is None
    assert find_trunk(rr.models.resnet18(width=0.1), batch.x, batch.mask) is None
    strided = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2))
    assert find_trunk(strided, batch.x, batch.mask) is None


def test_a_window_cuts_and_pastes():
    x = torch.arange(16.0).view(1, 1, 4, 4)
    window = Window(torch.tensor([[-1, 2]]), 2, 2)
    assert window.cut(x).tolist() == [[[[0.0, 0.0], [2.0, 3.0]]]]
    inside = Window(torch.tensor([[1, 1]]), 2, 2)
    assert torch.equal(inside.cut(inside.paste(inside.cut(x), x.shape)), inside.cut(x))
    assert float(inside.paste(inside.cut(x), x.shape).sum()) == 5 + 6 + 9 + 10


def test_recorded_outputs_are_those_of_the_pass():
    model, batch = made("lenet")
    trunk, outputs = find_trunk(model, batch.x, batch.mask), {}
    with record_outputs(model, trunk.names, outputs):
        model(batch.x)
    assert tuple(outputs) == trunk.names
