"""Nets that may abstain: an output for abstaining, or a selection head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from torch import Tensor, nn
from torch.nn import functional

from rightreasons.core.checks import Registry, check_integer
from rightreasons.errors import InvalidSettingError
from rightreasons.models.cifar_nets import resnet32
from rightreasons.models.layers import Activation, Size, activation_factory, check_size
from rightreasons.models.lenet import lenet
from rightreasons.models.mlp import mlp
from rightreasons.models.resnet import resnet18, resnet34, resnet50
from rightreasons.models.small_cnn import small_cnn
from rightreasons.models.vgg import vgg11

__all__ = [
    "BACKBONES",
    "Abstaining",
    "AbstainingPair",
    "SelectiveHeads",
    "abstaining",
    "backbone_net",
    "selective_net",
    "without_head",
]

BACKBONES: Registry[nn.Module] = Registry(
    "backbone",
    {
        "lenet": lenet,
        "mlp": mlp,
        "resnet18": resnet18,
        "resnet32": resnet32,
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
    """Make a net for images of this shape.

    Args:
        name: One of `BACKBONES`.
        classes: How many outputs it has.
        channels: Number of image channels.
        size: Image size in pixels: one side or ``(H, W)``.
        activation: Name of the activation, such as ``"relu"``; `activation_factory` lists them.
        settings: Further settings of the net, such as ``width`` of `resnet18`.

    Example:
        >>> net = backbone_net("mlp", classes=3, channels=1, size=4, activation="relu",
        ...                    settings={"hidden": [5]})
        >>> net[1]
        Linear(in_features=16, out_features=5, bias=True)
    """
    height, width = check_size(size)
    channels = check_integer("channels", channels)
    images = {"channels": channels, "size": size}
    known = BACKBONES.settings(name)
    shape = {"inputs": channels * height * width} if "inputs" in known else images
    further = {"activation": activation, **(settings or {})}
    return BACKBONES.create(name, classes=classes, **shape, **further)


def without_head(model: nn.Module) -> tuple[nn.Module, nn.Linear]:
    """Remove the last linear layer of a model, so that it gives that layer's inputs.

    Args:
        model: A model that ends in a linear layer; it is changed.

    Returns:
        The model without the layer, and the layer.

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
    path, _, name = linear[-1].rpartition(".")
    parent = model.get_submodule(path)
    head = parent.get_submodule(name)
    setattr(parent, name, nn.Identity())
    return model, head  # type: ignore[return-value]


class Abstaining(nn.Module):
    """A model of K + 1 outputs, the last for abstaining, that gives the K logits of the classes.

    So it can be used like any classifier of K classes. All K + 1 logits can be recorded as the
    layer ``all_logits``, which the term `DeepGamblers` and the score ``"abstain"`` read.

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
        channels: Number of image channels.
        size: Image size in pixels: one side or ``(H, W)``.
        backbone: Name of the net, see `BACKBONES`.
        backbone_settings: Further settings of the net, such as ``{"width": 0.25}``.
        activation: Name of the activation, such as ``"relu"``; `activation_factory` lists them.

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
            classes=check_integer("classes", classes, low=2) + 1,
            channels=channels,
            size=size,
            activation=activation,
            settings=backbone_settings,
        )
    )


class SelectiveHeads(nn.Module):
    r"""Three heads on one body: prediction, selection, and an auxiliary prediction.

    The model gives the logits of the first, ``prediction``, so that it can be used like any other.
    The others can be recorded by name. ``selection`` holds the log-odds ``(N, 1)`` of answering,
    :math:`g(x) = \sigma(\cdot)`. ``auxiliary_logits`` holds the logits ``(N, K)`` of a head that
    learns from all samples, so that the body sees samples that are not answered, too.

    Differs from the paper's public code, which divides what enters the selection head's last layer
    by 10.

    Args:
        body: Samples -> features ``(N, F)``.
        num_features: F.
        classes: K.
        hidden: Units of the selection head; 512 in the paper.
        activation: Name of the selection head's activation.

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
        num_features = check_integer("num_features", num_features)
        classes = check_integer("classes", classes, low=2)
        hidden = check_integer("hidden", hidden)
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
        self.selection(features)  # a hook can record its output, and that of the next
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
        channels: Number of image channels.
        size: Image size in pixels: one side or ``(H, W)``.
        backbone: Name of the net that is the body, see `BACKBONES`.
        backbone_settings: Further settings of the net, such as ``{"width": 0.25}``.
        hidden: Units of the selection head; 512 in the paper.
        activation: Name of the activation, such as ``"relu"``; `activation_factory` lists them.

    Example:
        >>> settings = {"backbone": "mlp", "backbone_settings": {"hidden": [5]}}
        >>> selective_net(classes=3, size=4, **settings).prediction
        Linear(in_features=5, out_features=3, bias=True)

    References:
        geifman2019selectivenet
    """
    net = backbone_net(
        backbone,
        classes=check_integer("classes", classes, low=2),
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


@final
class AbstainingPair(nn.Module):
    r"""The product of two models' probabilities, as one model.

    .. math:: f_i(x) = \log \bigl( p_i(x) \, q_i(x) \bigr)

    The class with the largest product is predicted, and MaskTune abstains unless that product is
    above a threshold. The largest logit is its logarithm: measure with ``score="logit"``
    (``"softmax"`` would divide by the sum of the products first, which is another order).

    Args:
        first: Gives logits ``(N, K)``: the model before MaskTune's fine-tuning.
        second: Gives logits ``(N, K)``: the model after fine-tuning.

    Shape:
        x as both take it; logits ``(N, K)``, all at most 0.

    Example:
        >>> import torch
        >>> pair = AbstainingPair(nn.Identity(), nn.Identity())
        >>> pair(torch.zeros(1, 2)).exp()  # 1/2 times 1/2
        tensor([[0.2500, 0.2500]])

    References:
        asgari2022masktune
    """

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first = first
        self.second = second

    def forward(self, x: Tensor) -> Tensor:
        """Samples ``(N, *S)`` -> logarithms ``(N, K)`` of the products."""
        both = (functional.log_softmax(model(x), dim=1) for model in (self.first, self.second))
        return sum(both)  # type: ignore[return-value]
