import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.core.model_modes import record_outputs


def test_remembers_what_layers_give_and_removes_its_hooks():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    outputs = {}
    with record_outputs(model, ["0", "1"], outputs):
        model(torch.rand(5, 3))
    assert {name: value.shape for name, value in outputs.items()} == {"0": (5, 4), "1": (5, 4)}
    assert torch.equal(outputs["0"].relu(), outputs["1"])
    assert not any(module._forward_hooks for module in model.modules())


def test_removes_its_hooks_after_an_error():
    model = nn.Sequential(nn.Linear(3, 4))
    with pytest.raises(RuntimeError), record_outputs(model, ["0"], {}):
        model(torch.rand(5, 2))
    assert not model[0]._forward_hooks


def test_frozen_weights_can_be_made_to_carry_a_gradient():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU()).requires_grad_(False)
    plain, differentiable = {}, {}
    with record_outputs(model, ["0"], plain):
        assert not model(torch.rand(5, 3)).requires_grad
    with record_outputs(model, ["0"], differentiable, differentiable=True):
        logits = model(torch.rand(5, 3))
    (gradient,) = torch.autograd.grad(logits.sum(), differentiable["0"])
    assert torch.equal(gradient, (differentiable["0"] > 0).float())


def test_an_unknown_layer_is_named_with_the_nearest():
    model = nn.Sequential()
    model.add_module("conv1", nn.Conv2d(1, 1, 1))
    with (
        pytest.raises(rr.errors.UnknownNameError, match="Did you mean 'conv1'"),
        record_outputs(model, ["conv2"], {}),
    ):
        pass
