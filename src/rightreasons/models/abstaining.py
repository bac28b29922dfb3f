"""A net with one more output, by which it says that it would rather not answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from rightreasons.models.activation import Activation
from rightreasons.models.backbone import backbone_net
from rightreasons.models.image_size import Size
from rightreasons.setting import checked_number

__all__ = ["Abstaining", "abstaining"]


class Abstaining(nn.Module):
    """A model of K + 1 outputs, the last for abstaining, that gives the K logits of the classes.

    So it can be used and measured like any other. All K + 1 logits can be recorded as the layer
    ``all_logits``, which the term `DeepGamblers` and the score ``"abstain"`` read.

    Args:
        model: Gives logits ``(N, K + 1)``.

    Shape:
        x as ``model`` takes it; logits ``(N, K)``.

    Example:
        >>> import torch
        >>> Abstaining(nn.Linear(5, 4))(torch.rand(2, 5)).shape
        torch.Size([2, 3])

    References:
        liu2019deep
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.all_logits = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Samples ``(N, *S)`` -> logits ``(N, K)`` of the classes."""
        logits: Tensor = self.all_logits(self.model(x))
        return logits[:, :-1]


def abstaining(
    *,
    classes: int = 10,
    channels: int = 3,
    size: Size = 32,
    backbone: str = "resnet18",
    backbone_settings: Mapping[str, Any] | None = None,
    activation: Activation = "relu",
) -> Abstaining:
    """Net with an output for abstaining, as Deep Gamblers has it.

    Args:
        classes: How many classes there are, without that output.
        channels: Of the images.
        size: Of the images, one side or ``(H, W)``.
        backbone: Name of the net, see `BACKBONES`.
        backbone_settings: What else it takes, such as ``{"width": 0.25}``.
        activation: See `activation_factory`.

    Example:
        >>> net = abstaining(classes=3, size=4, backbone="mlp", backbone_settings={"hidden": [5]})
        >>> net.model[-1]
        Linear(in_features=5, out_features=4, bias=True)

    References:
        liu2019deep
    """
    return Abstaining(
        backbone_net(
            backbone,
            classes=checked_number("classes", classes, low=2) + 1,
            channels=channels,
            size=size,
            activation=activation,
            settings=backbone_settings,
        )
    )
