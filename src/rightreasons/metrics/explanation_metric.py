"""What metrics of explanations share: explainers by name, and passes that fit the cache."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from rightreasons.core.memory import pass_bytes
from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.explainers import EXPLAINERS, LRP, Explainer, InputGradient, InputTimesGradient
from rightreasons.metrics.metric import Metric, check_prepared
from rightreasons.probe.probe import Probe
from rightreasons.types import Target

__all__ = [
    "CACHE_ROWS",
    "Explainers",
    "ExplanationMetric",
    "attributions",
    "create_explainers",
    "rows_in_cache",
    "split_for_cache",
    "to_channels_last",
]

CACHE_ROWS = 128
"""Rows of a pass with gradients whose activations still fit the caches of a processor."""
_CACHE_BYTES = 8 * 2**20
_FEWEST_ROWS, _MOST_ROWS = 16, 1024

Explainers = (
    str | Explainer | Sequence[str | Explainer] | Mapping[str, Explainer | Mapping[str, Any]]
)
"""One explainer or several: registered names, objects, or objects under names of one's own.

A dictionary of dictionaries has registered names and their settings.
"""


class ExplanationMetric(Metric):
    """A metric of attributions, for one explainer or several at once.

    Each explainer's value is under its own name, the first one's under the metric's as well. What
    is drawn depends on the seed and the sample, never on the batch.

    Args:
        explainers: Names, objects, or a dictionary of objects or of settings, as for
            `create_explainers`. LRP by name takes the data's valid range.
    """

    def __init__(self, *, explainers: Explainers) -> None:
        super().__init__()
        self.explainers = explainers
        create_explainers(explainers)  # so that a mistake shows here
        self._by_name: dict[str, Explainer] = {}
        self._valid_range = (0.0, 1.0)

    def prepare(self, data: Dataset) -> None:
        """Take the valid range from the card."""
        self._valid_range = data.card.valid_range
        self._by_name = create_explainers(self.explainers, data.card.valid_range)

    def explain(self, probe: Probe, y: Tensor) -> dict[str, Tensor]:
        """The attribution of the classes ``y`` by each explainer, at the probe's samples."""
        return attributions(self._by_name, probe.model, self.check_features(probe), y)

    def check_features(self, probe: Probe) -> Tensor:
        """The samples' features, or an error if the metric cannot work with them."""
        check_prepared(self, self._by_name or None, probe.batch.index)
        if not probe.batch.x.is_floating_point():
            raise InvalidBatchError(
                f"Expected floating point `x` for {type(self).__name__}, but got token ids."
            )
        return probe.features.detach()

    def headline(self, values: dict[str, float]) -> dict[str, float]:
        """Values by explainer, with the first one's under the metric's own name."""
        return {"": next(iter(values.values())), **values}


def create_explainers(
    explainers: Explainers, valid_range: tuple[float, float] = (0.0, 1.0)
) -> dict[str, Explainer]:
    """Explainers under the names that their values will have.

    Args:
        explainers: A hyphen in a registered name is an underscore. An object has its class' name
            in small letters. Settings are given as ``{"lrp": {}, "occlusion": {"window": 4}}``.
        valid_range: The data's valid range; LRP by name takes it as the box of the first layer.

    Example:
        >>> sorted(create_explainers(["lrp", InputGradient(target="loss")]))
        ['input_gradient', 'lrp']
    """
    if isinstance(explainers, Mapping):
        return {
            name if isinstance(given, Explainer) else _name_of(name): given
            if isinstance(given, Explainer)
            else _create(name, valid_range, given)
            for name, given in explainers.items()
        }
    several = [explainers] if isinstance(explainers, str | Explainer) else list(explainers)
    pairs = [(_name_of(explainer), _create(explainer, valid_range)) for explainer in several]
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
    """The attribution of each explainer, by name; those that need the input gradient share it."""
    gradients: dict[Target, Tensor] = {}
    result = {}
    for name, explainer in explainers.items():
        if isinstance(explainer, InputGradient | InputTimesGradient):
            target = explainer.target
            if target not in gradients:
                gradients[target] = _gradient(target, model, x, y)
            gradient = gradients[target]
            if isinstance(explainer, InputTimesGradient):
                gradient = explainer.multiply(x, gradient)
            result[name] = gradient
        else:
            result[name] = explainer(model, x, y)
    return result


def rows_in_cache(probe: Probe) -> int:
    """Rows of a pass without gradients whose largest activation still fits the caches.

    A narrow net allows more rows than a wide one. On other devices than a processor it is the
    largest number.

    Example:
        >>> from rightreasons.types import Batch
        >>> batch = Batch(x=torch.zeros(2, 3, 32, 32), y=torch.zeros(2, dtype=torch.long))
        >>> from torch import nn
        >>> net = nn.Sequential(nn.Conv2d(3, 8, 1), nn.Flatten(), nn.Linear(8 * 32 * 32, 2))
        >>> rows_in_cache(Probe(net, batch))
        256
    """
    if probe.features.device.type != "cpu":
        return _MOST_ROWS
    fitting = max(_CACHE_BYTES // pass_bytes(probe.model, probe.batch.x).largest, 1)
    return min(max(1 << fitting.bit_length() - 1, _FEWEST_ROWS), _MOST_ROWS)


def split_for_cache(x: Tensor) -> list[Tensor]:
    """Split samples into parts that fit a processor's caches; one part on other devices.

    Example:
        >>> [len(part) for part in split_for_cache(torch.zeros(200, 3))]
        [128, 72]
    """
    rows = CACHE_ROWS if x.device.type == "cpu" else max(1, len(x))
    return [to_channels_last(part) for part in torch.split(x, rows)]


def to_channels_last(x: Tensor) -> Tensor:
    """The same values with channels last in memory, which convolutions on a processor prefer.

    Convolutions follow the layout of their input. A stack of images then takes about a quarter
    less time, whatever the layout of the weights.
    """
    if x.ndim != 4 or x.device.type != "cpu":
        return x
    return x.contiguous(memory_format=torch.channels_last)


def _gradient(target: Target, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The input gradient, as many samples at a time as the caches of a processor hold."""
    explainer = InputGradient(target=target)
    parts = split_for_cache(x)
    labels = torch.split(y, [len(part) for part in parts])
    return torch.cat([explainer(model, *part) for part in zip(parts, labels, strict=True)])


def _create(
    explainer: str | Explainer,
    valid_range: tuple[float, float],
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> Explainer:
    if isinstance(explainer, Explainer):
        return explainer
    if EXPLAINERS[explainer] is LRP:
        settings = {"valid_range": valid_range, **settings}
    return EXPLAINERS.create(explainer, **settings)


def _name_of(explainer: str | Explainer) -> str:
    if isinstance(explainer, str):
        return explainer.replace("-", "_")
    registered = [name for name in EXPLAINERS if EXPLAINERS[name] is type(explainer)]
    class_name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(explainer).__name__).lower()
    return registered[0] if registered else class_name
