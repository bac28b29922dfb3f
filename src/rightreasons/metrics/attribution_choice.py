"""Explainers that metrics were asked for, by name or as objects, and their attributions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from rightreasons.errors import InvalidSettingError
from rightreasons.explainers import EXPLAINERS, LRP, Explainer, InputGradient, InputTimesGradient
from rightreasons.metrics.cache_friendly import comfortable_parts
from rightreasons.target import Target

__all__ = ["Explainers", "attributions", "named_explainers"]

Explainers = str | Explainer | Sequence[str | Explainer] | Mapping[str, Explainer]
"""One explainer or several: registered names, objects, or objects under names of one's own."""


def named_explainers(
    explainers: Explainers, valid_range: tuple[float, float] = (0.0, 1.0)
) -> dict[str, Explainer]:
    """Explainers under the names that their values will have.

    Args:
        explainers: A hyphen in a registered name is an underscore. An object goes by its class'
            name in small letters.
        valid_range: Of the data; LRP by name takes it as the box of the first layer.

    Example:
        >>> sorted(named_explainers(["lrp", InputGradient(target="loss")]))
        ['input_gradient', 'lrp']
    """
    if isinstance(explainers, Mapping):
        return dict(explainers)
    several = [explainers] if isinstance(explainers, str | Explainer) else list(explainers)
    pairs = [(_name(explainer), _made(explainer, valid_range)) for explainer in several]
    names = [name for name, _ in pairs]
    if not pairs or len(set(names)) < len(names):
        raise InvalidSettingError(
            f"Expected `explainers` to be different ones, at least one, but got "
            f"{', '.join(names) or 'none'}. Two of a kind need names: a dictionary."
        )
    return dict(pairs)


def attributions(
    explainers: Mapping[str, Explainer], model: nn.Module, x: Tensor, y: Tensor
) -> dict[str, Tensor]:
    """The attribution of each explainer, by name; one gradient serves all that rest on it."""
    gradients: dict[Target, Tensor] = {}
    result = {}
    for name, explainer in explainers.items():
        if isinstance(explainer, InputGradient | InputTimesGradient):
            target = explainer.target
            if target not in gradients:
                gradients[target] = _gradient(target, model, x, y)
            is_plain = isinstance(explainer, InputGradient)
            result[name] = gradients[target] if is_plain else x * gradients[target]
        else:
            result[name] = explainer(model, x, y)
    return result


def _gradient(target: Target, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The input gradient, as many samples at a time as the caches of a processor hold."""
    explainer = InputGradient(target=target)
    parts = comfortable_parts(x)
    labels = torch.split(y, [len(part) for part in parts])
    return torch.cat([explainer(model, *part) for part in zip(parts, labels, strict=True)])


def _made(explainer: str | Explainer, valid_range: tuple[float, float]) -> Explainer:
    if isinstance(explainer, Explainer):
        return explainer
    if EXPLAINERS[explainer] is LRP:
        return LRP(valid_range=valid_range)
    return EXPLAINERS.create(explainer)


def _name(explainer: str | Explainer) -> str:
    if isinstance(explainer, str):
        return explainer.replace("-", "_")
    registered = [name for name in EXPLAINERS if EXPLAINERS[name] is type(explainer)]
    own = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(explainer).__name__).lower()
    return registered[0] if registered else own
