"""VGG-11 with torchvision's names of parameters, so that its weight files fit."""

from __future__ import annotations

from torch import Tensor, nn

from rightreasons.core.checks import check_choice, check_fraction, check_integer, positive_float
from rightreasons.models.layers import Activation, Size, activation_factory, check_size, named_net

__all__ = ["VGG", "vgg11"]

_STAGES = ((64,), (128,), (256, 256), (512, 512), (512, 512))
_POOLED_SIDE = 7
_HIDDEN = 4096
_SMALLEST = 16
_SMALLEST_FOR_LAST_POOLING = 32


class VGG(nn.Module):
    """Five stages of 3 x 3 convolutions, each halved, and three fully connected layers.

    ``features`` holds the convolutions, ``classifier`` the fully connected layers. The
    last maps are averaged, or repeated, to 7 x 7 pixels. So the classifier has the same
    124 million parameters at every image size; ``width`` makes them fewer.

    Differs from the paper of Simonyan and Zisserman: images with a side under 32 pixels, which
    five poolings would use up, skip the last one; 16 pixels are the least.

    Args:
        classes: How many classes there are.
        channels: Number of image channels.
        size: Image size in pixels: one side or ``(H, W)``.
        batch_norm: Whether batch normalisation follows each convolution.
        dropout: Probability in the classifier.
        width: Factor on all channels and hidden units; below 1 the net is slim.
        activation: Name of the activation, such as ``"relu"``; `activation_factory` lists them.

    Shape:
        x ``(N, channels, H, W)``; logits ``(N, classes)``.
    """

    def __init__(
        self,
        *,
        classes: int = 1000,
        channels: int = 3,
        size: Size = 224,
        batch_norm: bool = False,
        dropout: float = 0.5,
        width: float = 1.0,
        activation: Activation = "relu",
    ) -> None:
        super().__init__()
        make_activation = activation_factory(activation)
        factor = positive_float("width", width)
        shorter_side = min(check_size(size, model="vgg11", low=_SMALLEST))
        check_choice("batch_norm", batch_norm, (False, True))
        check_fraction("dropout", dropout, below_one=True)
        inputs = check_integer("channels", channels)
        features: list[nn.Module] = []
        for stage in _STAGES:
            for stage_width in stage:
                outputs = max(1, round(factor * stage_width))
                features.append(nn.Conv2d(inputs, outputs, 3, padding=1))
                if batch_norm:
                    features.append(nn.BatchNorm2d(outputs))
                features.append(make_activation())
                inputs = outputs
            features.append(nn.MaxPool2d(2))
        if shorter_side < _SMALLEST_FOR_LAST_POOLING:
            features[-1] = nn.Identity()
        hidden = max(1, round(factor * _HIDDEN))
        self.features = nn.Sequential(*features)
        self.avgpool = nn.AdaptiveAvgPool2d(_POOLED_SIDE)
        self.flatten = nn.Flatten()
        self.classifier = nn.Sequential(
            nn.Linear(inputs * _POOLED_SIDE**2, hidden),
            make_activation(),
            nn.Dropout(dropout),
            nn.Linear(hidden, hidden),
            make_activation(),
            nn.Dropout(dropout),
            nn.Linear(hidden, check_integer("classes", classes, low=2)),
        )
        self._initialise()

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.01)
            if isinstance(module, nn.Conv2d | nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(N, C, H, W)`` -> logits ``(N, K)``."""
        logits: Tensor = self.classifier(self.flatten(self.avgpool(self.features(x))))
        return logits


@named_net(VGG)
def vgg11() -> VGG:  # type: ignore[empty-body]
    """VGG net of 11 layers, with torchvision's parameter names.

    The settings are those of `VGG`.

    Example:
        >>> import torch
        >>> vgg11(classes=10, size=28, width=0.0625)(torch.zeros(2, 3, 28, 28)).shape
        torch.Size([2, 10])
    """
