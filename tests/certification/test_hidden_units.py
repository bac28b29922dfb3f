import torch
from torch import nn

import rightreasons as rr
from rightreasons.certification.evidence import num_hidden_units


def test_counts_what_layers_with_weights_give():
    net = rr.models.mlp(inputs=6, hidden=(8, 5), classes=3)
    assert num_hidden_units(net, torch.rand(4, 6)) == 8 + 5 + 3


def test_images_count_every_position():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
    assert num_hidden_units(net, torch.rand(2, 1, 4, 4)) == 2 * 2 * 2 + 3


def test_a_single_layer_and_none_at_all():
    assert num_hidden_units(nn.Linear(6, 3), torch.rand(1, 6)) == 3
    assert num_hidden_units(nn.Flatten(), torch.rand(1, 2, 3)) == 6


def test_no_hook_is_left():
    net = rr.models.mlp(inputs=6, hidden=(8,), classes=3)
    num_hidden_units(net, torch.rand(1, 6))
    assert not any(module._forward_hooks for module in net.modules())
