"""The layers of a model that give maps of features: the last one, and one per resolution."""

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

# These layers compute no features: their input did, at the resolution it had.
_WITHOUT_FEATURES = (
    *(nn.MaxPool2d, nn.AvgPool2d, nn.LPPool2d, nn.FractionalMaxPool2d),
    *(nn.AdaptiveMaxPool2d, nn.AdaptiveAvgPool2d, nn.Identity, nn.ZeroPad2d, nn.ReflectionPad2d),
    *(nn.ReplicationPad2d, nn.ConstantPad2d, nn.Dropout, nn.Dropout2d, nn.AlphaDropout),
    *(nn.Upsample, nn.Unflatten, Normalise),
)


def last_spatial_layer(model: nn.Module, x: Tensor) -> str:
    """The last executed layer that gives maps of features: the default of Grad-CAM.

    Maps are ``(N, C, H, W)`` of more than one pixel. Pooling, padding, dropout and `Normalise`
    compute no features and do not count: if a net ends with pooling, the layer before is taken.

    Args:
        model: A model that gives logits.
        x: Inputs of the model; one sample is passed through.

    Example:
        >>> model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        >>> last_spatial_layer(model, torch.zeros(1, 1, 8, 8))
        '1'
    """
    return resolution_layers(model, x)[-1]


def resolution_layers(model: nn.Module, x: Tensor) -> list[str]:
    """The last layer, or block of layers, of each resolution, in order of execution.

    Some blocks of a ResNet-50 or an EfficientNet end at a smaller resolution than they begin with,
    and have layers at the larger one. Their output is not the block's, and in a ResNet a shortcut
    goes past them. For the larger resolution the block before is taken instead.

    Args:
        model: A model that gives logits.
        x: Inputs of the model; one sample is passed through.

    Example:
        >>> from rightreasons.models import resnet18
        >>> resolution_layers(resnet18(size=32, width=0.0625), torch.zeros(1, 3, 32, 32))
        ['layer1', 'layer2', 'layer3', 'layer4']
    """
    batch = Batch(x=x[:1], y=torch.zeros(1, dtype=torch.int64, device=x.device))
    modules = {name: module for name, module in model.named_modules() if name}
    with torch.no_grad():
        recorded = Probe.at_test_time(model, batch, layers=list(modules)).activations
    maps = {name: output for name, output in recorded.items() if _is_map(output)}
    copied = {  # outputs of a layer without features, also where a block hands them on
        id(output) for name, output in maps.items() if isinstance(modules[name], _WITHOUT_FEATURES)
    }
    computed = {name: output for name, output in maps.items() if id(output) not in copied}
    ends = {
        name: output[0, 0].numel()
        for name, output in computed.items()
        if not isinstance(modules[name], nn.Sequential)  # no shortcut goes past a chain's layers
    }
    layers: dict[tuple[int, ...], str] = {}
    for name, output in computed.items():  # a block ends after its layers
        size = tuple(output.shape[2:])
        earlier = layers.get(size, name)
        num, num_earlier = (_num_smaller_blocks(layer, size, ends) for layer in (name, earlier))
        if math.prod(size) > 1 and num <= num_earlier:
            layers.pop(size, None)
            layers[size] = name
    if not layers:
        raise InvalidSettingError(
            "Expected a model with convolutional features, but none of its layers gives maps "
            "(N, C, H, W) of more than one pixel. Name a layer with `layers=[...]`, or guide input "
            "gradients with R3, which needs no maps."
        )
    return list(layers.values())


def _is_map(output: object) -> TypeGuard[Tensor]:
    return isinstance(output, Tensor) and output.ndim == 4


def _num_smaller_blocks(name: str, size: tuple[int, ...], ends: Mapping[str, int]) -> int:
    """The number of blocks around a layer that end with fewer pixels than it has."""
    parts = name.split(".")
    around = (".".join(parts[:number]) for number in range(1, len(parts)))
    return sum(ends.get(block, math.inf) < math.prod(size) for block in around)
