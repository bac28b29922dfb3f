"""Which layers of a model hold maps of features: the last one, and one of each resolution."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeGuard

import torch
from torch import Tensor, nn

from rightreasons.errors import InvalidSettingError
from rightreasons.models import Normalise
from rightreasons.probe.probe import Probe
from rightreasons.types import Batch

__all__ = ["last_spatial_layer", "resolution_layers"]

# What they give was made by the layer before them, at the resolution that layer had.
_FEATURELESS = (
    *(nn.MaxPool2d, nn.AvgPool2d, nn.LPPool2d, nn.FractionalMaxPool2d),
    *(nn.AdaptiveMaxPool2d, nn.AdaptiveAvgPool2d, nn.Identity, nn.ZeroPad2d, nn.ReflectionPad2d),
    *(nn.ReplicationPad2d, nn.ConstantPad2d, nn.Dropout, nn.Dropout2d, nn.AlphaDropout),
    *(nn.Upsample, nn.Unflatten, Normalise),
)


def last_spatial_layer(model: nn.Module, x: Tensor) -> str:
    """The last layer, by execution, with maps of features: where Grad-CAM looks by default.

    Maps are ``(N, C, H, W)`` of more than one pixel. Pooling, padding, dropout and
    `Normalise` make no features and do not count, so that a net that pools at its end is read
    before it does.

    Args:
        model: Gives logits.
        x: Inputs it can take; one sample is passed through.

    Example:
        >>> model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        >>> last_spatial_layer(model, torch.zeros(1, 1, 8, 8))
        '1'
    """
    return resolution_layers(model, x)[-1]


def resolution_layers(model: nn.Module, x: Tensor) -> list[str]:
    """The last layer, or block of layers, of each resolution, in order of execution.

    A block that ends at a smaller resolution than it begins at, as some of a ResNet-50 or an
    EfficientNet do, may have layers of its own at the larger one. What they give is not yet the
    block's and in a ResNet goes beside its shortcut, so the block before is taken.

    Args:
        model: Gives logits.
        x: Inputs it can take; one sample is passed through.

    Example:
        >>> from rightreasons.models import resnet18
        >>> resolution_layers(resnet18(size=32, width=0.0625), torch.zeros(1, 3, 32, 32))
        ['layer1', 'layer2', 'layer3', 'layer4']
    """
    batch = Batch(x=x[:1], y=torch.zeros(1, dtype=torch.int64, device=x.device))
    modules = {name: module for name, module in model.named_modules() if name}
    with torch.no_grad():
        recorded = Probe.at_test_time(model, batch, layers=list(modules)).activations
    planes = {name: output for name, output in recorded.items() if _is_plane(output)}
    made_elsewhere = {
        id(output) for name, output in planes.items() if isinstance(modules[name], _FEATURELESS)
    }
    made = {name: output for name, output in planes.items() if id(output) not in made_elsewhere}
    ends = {
        name: output[0, 0].numel()
        for name, output in made.items()
        if not isinstance(modules[name], nn.Sequential)  # nothing goes past a chain's layers
    }
    layers: dict[tuple[int, ...], str] = {}
    for name, output in made.items():  # a block ends after its layers
        size = tuple(output.shape[2:])
        earlier = layers.get(size, name)
        if math.prod(size) > 1 and _num_left(name, size, ends) <= _num_left(earlier, size, ends):
            layers.pop(size, None)
            layers[size] = name
    if not layers:
        raise InvalidSettingError(
            "Expected a model with convolutional features, but none of its layers gives maps "
            "(N, C, H, W) of more than one pixel. Name a layer with `layers=[...]`, or guide input "
            "gradients with R3, which needs no maps."
        )
    return list(layers.values())


def _is_plane(output: object) -> TypeGuard[Tensor]:
    return isinstance(output, Tensor) and output.ndim == 4


def _num_left(name: str, size: tuple[int, ...], ends: Mapping[str, int]) -> int:
    """How many of the blocks around a layer end at fewer pixels than it has."""
    parts = name.split(".")
    around = (".".join(parts[:number]) for number in range(1, len(parts)))
    return sum(ends.get(block, math.inf) < math.prod(size) for block in around)
