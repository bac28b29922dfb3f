"""The model as a function of its masked features alone.

`MaskedFeatures` moves, differentiates and bounds the features that masks touch. A `FeatureAdapter`
brings their values into the net. Where `split_at_first_layer` finds an affine first layer, they
enter behind it, which is cheap; elsewhere they become a full input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from typing_extensions import override

from rightreasons.bounds import Box, gradient_box, output_box
from rightreasons.core.memory import Work, rows_within_budget
from rightreasons.core.model_modes import (
    out_of_place,
    test_time_mode,
    translate_autograd_errors,
    twice_differentiable,
)
from rightreasons.core.tracing import SplitNet
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Interval, Target

__all__ = [
    "FeatureAdapter",
    "FirstLayerAdapter",
    "InputAdapter",
    "MaskedFeatures",
    "Point",
    "create_adapter",
]


class MaskedFeatures:
    r"""The features that masks touch: their values, their gradient, and the model as they move.

    A sample has ``D`` features. The ``M`` features that the mask of *any* sample of the batch
    touches are columns of ``(N, M)``; the others never move. Where the first layer is affine, the
    others are folded into a constant once. Moving, differentiating and bounding then cost products
    with ``M`` columns instead of ``D``. Elsewhere the values are put back into the input. Both ways
    give the same numbers within rounding.

    Args:
        adapter: Brings the values into the net, and gradients back.
        model: The whole model, whose mode is switched.
        features: The samples, ``(N, *S)``.
        mask: The mask at the columns, ``(N, M)``.
        y: Labels ``(N,)``.
        nominal_gradient: Gives the gradient of a target at the net's input for the samples
            themselves, with its graph if training needs it.
        max_rows: The most rows of a stacked pass; None leaves them to a memory budget.
        in_training: Whether the passes belong to a training step.
    """

    def __init__(
        self,
        *,
        adapter: FeatureAdapter,
        model: nn.Module,
        features: Tensor,
        mask: Tensor,
        y: Tensor,
        nominal_gradient: Callable[[Target], Tensor],
        max_rows: int | None,
        in_training: bool,
    ) -> None:
        self.mask = mask
        self.y = y
        self.max_rows = max_rows
        self._in_training = in_training
        self._adapter = adapter
        self._model = model
        self._features = features.detach()
        self._nominal_gradient = nominal_gradient
        self._gradients: dict[Target, Tensor] = {}

    @property
    def values(self) -> Tensor:
        """The features themselves, ``(N, M)``."""
        return self._adapter.values

    @property
    def columns(self) -> Tensor:
        """The indices of the masked features among the flattened ones, ``(M,)``."""
        return self._adapter.columns

    def gradient(self, target: Target | str = Target.LOSS) -> Tensor:
        """The gradient of ``target`` at the samples, ``(N, M)``; computed once."""
        target = Target(target)
        if target not in self._gradients:
            at_net = self._nominal_gradient(target)
            self._gradients[target] = self._adapter.feature_gradient(at_net)
        return self._gradients[target]

    def box(
        self, epsilon: float | None, valid_range: tuple[float, float] | None = None
    ) -> Interval:
        r"""Where the masked features may move: :math:`x \pm \epsilon m`, within the valid range.

        Args:
            epsilon: Radius in input units. None allows every valid value and needs a range; where
                the mask is soft, the feature moves by that fraction of the way.
            valid_range: The smallest and largest value of a feature; None is no limit. A feature
                outside the range may keep its value.
        """
        values, mask = self.values.detach(), self.mask
        if epsilon is None:
            ends = [torch.full_like(values, end) for end in _check_given(valid_range)]
            lower, upper = (torch.lerp(values, end, mask) for end in ends)
            return Interval(torch.minimum(lower, values), torch.maximum(upper, values))
        reach = epsilon * mask
        lower, upper = values - reach, values + reach
        if valid_range is not None:
            lower = torch.minimum(lower.clamp(min=valid_range[0]), values)
            upper = torch.maximum(upper.clamp(max=valid_range[1]), values)
        return Interval(lower, upper)

    def at(self, values: Tensor, *, reach_weights: bool = False) -> Point:
        """Run the model at other values of the masked features, as at test time.

        Args:
            values: ``(N, M)``, or ``(K * N, M)``, copy after copy; may carry a graph.
            reach_weights: Whether gradients of the results must reach the weights.
        """
        y = self.y if len(values) == len(self.y) else self.y.repeat(len(values) // len(self.y))
        with self._test_time(), torch.enable_grad():
            net_input = self._adapter.net_input(values, detached=not reach_weights)
            if not net_input.requires_grad:
                net_input.requires_grad_()
            logits = self._adapter.net(net_input)
        return Point(self._adapter, net_input, logits, y, detached=not reach_weights)

    def rows_for(self, work: Work, ceiling: int) -> int:
        """The most rows of one pass, see `Probe.rows_for`."""
        if self.max_rows is not None:
            return self.max_rows
        return rows_within_budget(
            self._model, self._features, work, ceiling=ceiling, in_training=self._in_training
        )

    def output_box(self, interval: Interval) -> Box:
        """Bounds of the logits over values in ``interval``."""
        with self._test_time():
            return output_box(self._adapter.net, self._adapter.net_input_box(interval))

    def gradient_box(self, interval: Interval, target: Target) -> tuple[Box, Box]:
        """Bounds of the logits, and of the gradient ``(N, M)``, over values in ``interval``."""
        with self._test_time():
            net_input = self._adapter.net_input_box(interval)
            logits, gradient = gradient_box(self._adapter.net, net_input, self.y, target=target)
            return logits, self._adapter.feature_gradient_box(gradient)

    @contextmanager
    def _test_time(self) -> Iterator[None]:
        model = self._model
        with (
            translate_autograd_errors(),
            test_time_mode(model),
            twice_differentiable(model),
            out_of_place(model),
        ):
            yield


class Point:
    """The model at some values of the masked features.

    Args:
        adapter: Brought the values into the net.
        net_input: The net's input that it computed from them.
        logits: The net's output.
        y: The labels.
        detached: Whether gradients leave the weights' graph out.
    """

    def __init__(
        self,
        adapter: FeatureAdapter,
        net_input: Tensor,
        logits: Tensor,
        y: Tensor,
        *,
        detached: bool,
    ) -> None:
        self.logits = logits
        self.y = y
        self._adapter = adapter
        self._net_input = net_input
        self._detached = detached

    def gradient(self, target: Target, *, create_graph: bool = False) -> Tensor:
        """The gradient of ``target`` for each row, ``(rows, M)``."""
        with translate_autograd_errors(), torch.enable_grad():
            value = target(self.logits, self.y).sum()
            (gradient,) = torch.autograd.grad(value, self._net_input, create_graph=create_graph)
        return self._adapter.feature_gradient(gradient, detached=self._detached)


class FeatureAdapter(ABC):
    """Brings the values of ``M`` features, ``(N, M)``, into a net, and its gradients back to them.

    Args:
        net: Maps what the adapter computes to the logits.
        values: The features' values at the samples.
        columns: The features' indices among the flattened ones.
    """

    def __init__(self, *, net: nn.Module, values: Tensor, columns: Tensor) -> None:
        self.net = net
        self.values = values
        self.columns = columns

    @abstractmethod
    def net_input(self, values: Tensor, *, detached: bool) -> Tensor:
        """The input of the net for ``values``, ``(N, M)`` or copies of it, copy after copy.

        Args:
            values: The features' values; may carry a graph.
            detached: Whether to leave the weights' graph out.
        """

    @abstractmethod
    def feature_gradient(self, gradient: Tensor, *, detached: bool = False) -> Tensor:
        """Map a gradient at the net's input to the gradient at the features, ``(..., M)``."""

    @abstractmethod
    def net_input_box(self, interval: Interval) -> Box:
        """A box with every input of the net for values in ``interval``."""

    @abstractmethod
    def feature_gradient_box(self, gradient: Box) -> Box:
        """Map bounds of the gradient at the net's input to bounds at the features."""


class FirstLayerAdapter(FeatureAdapter):
    r"""Enters behind an affine first layer: the net's input is :math:`z + W_S (v - v_0)`.

    Args:
        split: The net, split behind its first layer.
        first_output: ``z``, the output of the first layer for the samples.
        values: ``v_0``, the features' values at the samples.
        columns: ``S``, the features' indices.
    """

    def __init__(
        self, *, split: SplitNet, first_output: Tensor, values: Tensor, columns: Tensor
    ) -> None:
        super().__init__(net=split.tail, values=values, columns=columns)
        self.first_output = first_output
        self.weight = split.layer.weight.index_select(1, columns)

    @override
    def net_input(self, values: Tensor, *, detached: bool) -> Tensor:
        weight, base = self.weight, self.first_output
        if detached:
            weight, base = weight.detach(), base.detach()
        if len(values) == len(base):
            return torch.addmm(base, values - self.values, weight.T)
        # Copies share z: broadcast it over them instead of repeating it.
        changes = values.view(len(values) // len(base), *self.values.shape) - self.values
        net_input: Tensor = (changes @ weight.T + base).flatten(0, 1)
        return net_input

    @override
    def feature_gradient(self, gradient: Tensor, *, detached: bool = False) -> Tensor:
        at_features: Tensor = gradient @ (self.weight.detach() if detached else self.weight)
        return at_features

    @override
    def net_input_box(self, interval: Interval) -> Box:
        center, radius = _center_and_radius(interval)
        return Box(
            torch.addmm(self.first_output, center - self.values, self.weight.T),
            radius @ self.weight.abs().T,
        )

    @override
    def feature_gradient_box(self, gradient: Box) -> Box:
        return Box(gradient.center @ self.weight, gradient.radius @ self.weight.abs())


class InputAdapter(FeatureAdapter):
    """Enters before the whole model: the values are put back at their columns of the input.

    Args:
        model: The model.
        features: The samples ``(N, *S)``.
        columns: The indices of the flattened features that move.
    """

    def __init__(self, *, model: nn.Module, features: Tensor, columns: Tensor) -> None:
        self.features = features.detach()
        values = self.features.flatten(1).index_select(1, columns)
        super().__init__(net=model, values=values, columns=columns)

    @override
    def net_input(self, values: Tensor, *, detached: bool) -> Tensor:
        del detached  # no weight comes before the input
        num_copies = len(values) // len(self.features)
        inputs = self.features.flatten(1)
        inputs = inputs if num_copies == 1 else inputs.repeat(num_copies, 1)
        inputs = inputs.index_copy(1, self.columns, values)
        return inputs.view(len(values), *self.features.shape[1:])

    @override
    def feature_gradient(self, gradient: Tensor, *, detached: bool = False) -> Tensor:
        del detached
        return gradient.flatten(1).index_select(1, self.columns)

    @override
    def net_input_box(self, interval: Interval) -> Box:
        center, radius = _center_and_radius(interval)
        full_radius = torch.zeros_like(self.features).flatten(1)
        full_radius = full_radius.index_copy(1, self.columns, radius).view_as(self.features)
        return Box(self.net_input(center, detached=False), full_radius)

    @override
    def feature_gradient_box(self, gradient: Box) -> Box:
        return Box(self.feature_gradient(gradient.center), self.feature_gradient(gradient.radius))


def create_adapter(
    model: nn.Module,
    split: SplitNet | None,
    first_output: Mapping[str, Tensor],
    features: Tensor,
    columns: Tensor,
) -> FeatureAdapter:
    """The cheapest adapter for a model.

    Args:
        model: The whole model.
        split: The model, split behind its first layer; None if it cannot be.
        first_output: The output of the first layer for the samples, by the layer's name.
        features: The samples ``(N, *S)``.
        columns: The indices of the flattened features that move.
    """
    if split is None:
        return InputAdapter(model=model, features=features, columns=columns)
    values = features.flatten(1).index_select(1, columns)
    output = first_output[split.name]
    return FirstLayerAdapter(split=split, first_output=output, values=values, columns=columns)


def _center_and_radius(interval: Interval) -> tuple[Tensor, Tensor]:
    lower, upper = interval
    return (lower + upper) / 2, (upper - lower) / 2


def _check_given(valid_range: tuple[float, float] | None) -> tuple[float, float]:
    if valid_range is None:
        raise InvalidSettingError(
            "Expected a `valid_range` for features that may take every valid value, but got None. "
            "Give the smallest and largest value, such as (0.0, 1.0), or an `epsilon`."
        )
    return valid_range
