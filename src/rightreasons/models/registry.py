"""Models by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from rightreasons.core.checks import Registry, check_integer, check_names
from rightreasons.errors import InvalidSettingError
from rightreasons.models.attention_branch import attention_branch
from rightreasons.models.cifar_nets import resnet32, wide_resnet28_10
from rightreasons.models.efficientnet_lite import efficientnet_lite0
from rightreasons.models.foreign import binary
from rightreasons.models.layers import Size, check_size
from rightreasons.models.lenet import lenet
from rightreasons.models.mlp import mlp, mlp2
from rightreasons.models.normalised import normalised
from rightreasons.models.own import create_own, is_own
from rightreasons.models.r4_nets import derma_net, isic_net, plant_net
from rightreasons.models.resnet import resnet18, resnet34, resnet50
from rightreasons.models.selective import abstaining, selective_net
from rightreasons.models.small_cnn import small_cnn
from rightreasons.models.text_nets import text_cnn, text_lstm, text_mlp
from rightreasons.models.transformer import transformer
from rightreasons.models.vgg import vgg11

__all__ = ["MODELS", "create", "default_model", "describe", "names"]

LARGEST_FOR_SMALL_CNN = 96

_MODELS: tuple[Callable[..., nn.Module], ...] = (
    abstaining,
    attention_branch,
    derma_net,
    efficientnet_lite0,
    isic_net,
    lenet,
    mlp,
    mlp2,
    plant_net,
    resnet18,
    resnet32,
    resnet34,
    resnet50,
    selective_net,
    small_cnn,
    text_cnn,
    text_lstm,
    text_mlp,
    transformer,
    vgg11,
    wide_resnet28_10,
)
MODELS: Registry[nn.Module] = Registry("model", {make.__name__: make for make in _MODELS})
_FROM_THE_DATA = ("channels", "classes", "inputs", "size", "vocabulary")


def names() -> tuple[str, ...]:
    """The names of all models, sorted.

    Example:
        >>> names()[:3]
        ('abstaining', 'attention_branch', 'derma_net')
    """
    return tuple(MODELS)


def describe() -> dict[str, str]:
    """One line about each model, by name.

    Example:
        >>> describe()["small_cnn"]
        'Four normalised convolutions and a hidden layer, as on biased MNIST.'
    """
    return MODELS.describe()


def default_model(shape: Sequence[int], *, text: bool = False) -> tuple[str, dict[str, Any]]:
    """The model that a run has by default, and its settings.

    Args:
        shape: Shape of a sample: ``(C, H, W)`` for images, ``(D,)`` for a table.
        text: Whether samples are token ids.

    Example:
        >>> default_model((3, 64, 64)), default_model((3, 224, 224))
        (('small_cnn', {'padding': 1}), ('resnet18', {'width': 0.25}))
        >>> default_model((12,))
        ('mlp', {})
    """
    if text:
        return "text_mlp", {}
    if len(shape) != 3:
        return "mlp", {}
    if max(shape[1:]) <= LARGEST_FOR_SMALL_CNN:
        return "small_cnn", {"padding": 1}
    return "resnet18", {"width": 0.25}


def create(
    name: str,
    *,
    classes: int,
    channels: int,
    size: Size,
    vocabulary: int | None = None,
    **settings: Any,
) -> nn.Module:
    """Make a model for images of this shape, for a table or for texts, by name.

    Weights are drawn from torch's generator, so that ``torch.manual_seed`` determines them.

    Args:
        name: One of `names`; "-" and "_" are the same. Or your own function or class that gives
            a model, as ``path.py:factory`` or ``package.module:name``, see `create_own`.
        classes: How many classes there are.
        channels: Number of image channels, or of a table's columns.
        size: Image size in pixels: one side or ``(H, W)``; ``()`` for a table or texts.
        vocabulary: Number of token ids, for texts alone.
        **settings: Further settings of the model's function, such as ``hidden`` of `mlp`. Every
            model also takes ``mean`` and ``deviation``, see `normalised`. One with one logit for
            two classes takes ``positive``, see `binary`.

    Example:
        >>> create("mlp", classes=10, channels=1, size=28, hidden=[64])[1]
        Linear(in_features=784, out_features=64, bias=True)
    """
    scale = {key: settings.pop(key) for key in ("mean", "deviation") if key in settings}
    if len(scale) == 1:
        raise InvalidSettingError(
            f"Expected both `mean` and `deviation`, or neither, but got {', '.join(scale)} alone."
        )
    for key, value in scale.items():
        if isinstance(value, Sequence) and len(value) not in (1, channels):
            option = "--mean" if key == "mean" else "--std"
            raise InvalidSettingError(
                f"Expected `{key}` ({option}) to be one number, or one for each of {channels} "
                f"channels, but got {len(value)}: {', '.join(map(str, value))}."
            )
    adapt = {key: settings.pop(key) for key in ("positive",) if key in settings}
    make = create_own if is_own(name) else _create
    shape: dict[str, Any] = {"channels": channels, "size": size}
    if vocabulary is not None:
        shape["vocabulary"] = vocabulary
    model = make(name, classes=classes, **shape, **settings)
    model = binary(model, **adapt) if adapt else model
    return normalised(model, **scale) if scale else model


def _create(
    name: str,
    *,
    classes: int,
    channels: int,
    size: Size,
    vocabulary: int | None = None,
    **settings: Any,
) -> nn.Module:
    known = MODELS.settings(name)
    allowed = [setting for setting in known if setting not in _FROM_THE_DATA]
    check_names(f"settings of the model {name!r}", settings, allowed)
    make = MODELS[name]
    if (vocabulary is not None) != ("vocabulary" in known):
        texts = [one for one in MODELS if "vocabulary" in MODELS.settings(one)]
        raise InvalidSettingError(
            f"Expected a model for texts, but {name!r} is for pixels or columns. Use one of "
            f"{', '.join(texts)}."
            if vocabulary is not None
            else f"Expected a model for pixels or columns, but {name!r} is for texts. Give the "
            "data's `vocabulary`, or use another model."
        )
    if vocabulary is not None:
        return make(vocabulary=vocabulary, classes=classes, **settings)
    if "inputs" in known:
        height, width = (1, 1) if size == () else check_size(size)
        inputs = check_integer("channels", channels) * height * width
        return make(inputs=inputs, classes=classes, **settings)
    if size == ():
        dense = [one for one in MODELS if "inputs" in MODELS.settings(one)]
        raise InvalidSettingError(
            f"Expected a model for the columns of a table, but {name!r} is for images. Use one of "
            f"{', '.join(dense)}."
        )
    return make(classes=classes, channels=channels, size=size, **settings)
