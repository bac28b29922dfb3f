"""SelectiveNet: a net with a head that says whether to answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from rightreasons.models.activation import Activation, activation_factory
from rightreasons.models.backbone import backbone_net, without_head
from rightreasons.models.image_size import Size
from rightreasons.setting import checked_number

__all__ = ["SelectiveHeads", "selective_net"]


class SelectiveHeads(nn.Module):
    r"""Three heads on one body: what the answer is, whether to give it, and what if one must.

    The model gives the logits of the first, ``prediction``, so that it can be used like any other.
    The others can be recorded by name: ``selection`` are the log-odds ``(N, 1)`` of answering,
    :math:`g(x) = \sigma(\cdot)`, and ``auxiliary_logits`` are the logits ``(N, K)`` of a head that
    is trained on all samples, so that the body sees also those nobody will answer.

    Differs from the paper's public code, which divides what enters the selection head's last layer
    by 10.

    Args:
        body: Samples -> features ``(N, F)``.
        num_features: F.
        classes: K.
        hidden: Units of the selection head; 512 in the paper.
        activation: Of the selection head, see `activation_factory`.

    Shape:
        x as ``body`` takes it; logits ``(N, classes)``.

    Example:
        >>> import torch
        >>> heads = SelectiveHeads(body=nn.Linear(5, 4), num_features=4, classes=3, hidden=6)
        >>> heads(torch.rand(2, 5)).shape
        torch.Size([2, 3])

    References:
        geifman2019selectivenet
    """

    def __init__(
        self,
        *,
        body: nn.Module,
        num_features: int,
        classes: int,
        hidden: int = 512,
        activation: Activation = "relu",
    ) -> None:
        super().__init__()
        num_features = checked_number("num_features", num_features)
        classes = checked_number("classes", classes, low=2)
        hidden = checked_number("hidden", hidden)
        self.body = body
        self.prediction = nn.Linear(num_features, classes)
        self.selection = nn.Sequential(
            nn.Linear(num_features, hidden),
            activation_factory(activation)(),
            nn.BatchNorm1d(hidden),
            nn.Linear(hidden, 1),
        )
        self.auxiliary_logits = nn.Linear(num_features, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Samples ``(N, *S)`` -> logits ``(N, K)`` of the prediction head."""
        features = self.body(x)
        self.selection(features)  # for who recorded it, as the next
        self.auxiliary_logits(features)
        logits: Tensor = self.prediction(features)
        return logits


def selective_net(
    *,
    classes: int = 10,
    channels: int = 3,
    size: Size = 32,
    backbone: str = "resnet18",
    backbone_settings: Mapping[str, Any] | None = None,
    hidden: int = 512,
    activation: Activation = "relu",
) -> SelectiveHeads:
    """SelectiveNet: a net with heads for prediction and selection.

    Differs from the paper: its body is a VGG-16; here any net whose last layer can be taken off.

    Args:
        classes: How many classes there are.
        channels: Of the images.
        size: Of the images, one side or ``(H, W)``.
        backbone: Name of the net that is the body, see `BACKBONES`.
        backbone_settings: What else it takes, such as ``{"width": 0.25}``.
        hidden: See `SelectiveHeads`.
        activation: See `activation_factory`.

    Example:
        >>> settings = {"backbone": "mlp", "backbone_settings": {"hidden": [5]}}
        >>> selective_net(classes=3, size=4, **settings).prediction
        Linear(in_features=5, out_features=3, bias=True)

    References:
        geifman2019selectivenet
    """
    net = backbone_net(
        backbone,
        classes=checked_number("classes", classes, low=2),
        channels=channels,
        size=size,
        activation=activation,
        settings=backbone_settings,
    )
    body, head = without_head(net)
    return SelectiveHeads(
        body=body,
        num_features=head.in_features,
        classes=classes,
        hidden=hidden,
        activation=activation,
    )
