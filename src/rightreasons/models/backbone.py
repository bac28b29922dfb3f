"""Nets by name that others are built around, and nets without their last layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from rightreasons.errors import InvalidSettingError
from rightreasons.models.activation import Activation
from rightreasons.models.image_size import Size, check_size
from rightreasons.models.lenet import lenet
from rightreasons.models.mlp import mlp
from rightreasons.models.resnet import resnet18, resnet34, resnet50
from rightreasons.models.small_cnn import small_cnn
from rightreasons.models.vgg import vgg11
from rightreasons.registry import Registry
from rightreasons.setting import checked_number

__all__ = ["BACKBONES", "backbone_net", "without_head"]

BACKBONES: Registry[nn.Module] = Registry(
    "backbone",
    {
        "lenet": lenet,
        "mlp": mlp,
        "resnet18": resnet18,
        "resnet34": resnet34,
        "resnet50": resnet50,
        "small_cnn": small_cnn,
        "vgg11": vgg11,
    },
)


def backbone_net(
    name: str,
    *,
    classes: int,
    channels: int,
    size: Size,
    activation: Activation,
    settings: Mapping[str, Any] | None = None,
) -> nn.Module:
    """A net for images of this shape.

    Args:
        name: One of `BACKBONES`.
        classes: How many outputs it has.
        channels: Of the images.
        size: Of the images, one side or ``(H, W)``.
        activation: See `activation_factory`.
        settings: What else the net's own function takes, such as ``width`` of `resnet18`.

    Example:
        >>> net = backbone_net("mlp", classes=3, channels=1, size=4, activation="relu",
        ...                    settings={"hidden": [5]})
        >>> net[1]
        Linear(in_features=16, out_features=5, bias=True)
    """
    height, width = check_size(size)
    channels = checked_number("channels", channels)
    images = {"channels": channels, "size": size}
    known = BACKBONES.settings(name)
    shape = {"inputs": channels * height * width} if "inputs" in known else images
    own = {"activation": activation, **(settings or {})}
    return BACKBONES.create(name, classes=classes, **shape, **own)


def without_head(model: nn.Module) -> tuple[nn.Module, nn.Linear]:
    """Take the last linear layer off a model: what is left gives that layer's inputs.

    Args:
        model: Ends in the layer; it is changed.

    Returns:
        The model, and the layer.

    Example:
        >>> body, head = without_head(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)))
        >>> body[1], head
        (Identity(), Linear(in_features=4, out_features=2, bias=True))
    """
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not linear or not linear[-1]:
        raise InvalidSettingError(
            f"Expected a model that ends in an nn.Linear behind other layers, but got "
            f"{type(model).__name__} without one."
        )
    place, _, name = linear[-1].rpartition(".")
    parent = model.get_submodule(place)
    head = parent.get_submodule(name)
    setattr(parent, name, nn.Identity())
    return model, head  # type: ignore[return-value]
