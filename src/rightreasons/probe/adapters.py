"""How masked features enter a net: at its input, behind its first layer, behind a mean.

Where `split_at_first_layer` finds an affine first layer, features enter behind it, which is cheap.
Embeddings enter behind their mean, if that is all a net reads. Elsewhere they become a full input.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from rightreasons.bounds import Box
from rightreasons.core.tracing import SplitNet
from rightreasons.errors import UnsupportedLayerError
from rightreasons.probe.embeddings import FeatureModel
from rightreasons.types import Interval

__all__ = [
    "FeatureAdapter",
    "FirstLayerAdapter",
    "InputAdapter",
    "PooledAdapter",
    "create_adapter",
]


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

    def nominal_gradient(self, gradient: Tensor) -> Tensor:
        """Map the gradient of the probe's own pass to the features, ``(N, M)``."""
        return self.feature_gradient(gradient)

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
        self.weight = split.layer.weight.index_select(1, columns)
        # In mixed precision z is in half precision, which bounds do not take.
        self.first_output = first_output.to(
            torch.promote_types(first_output.dtype, self.weight.dtype)
        )

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
        has_weights = isinstance(model, FeatureModel) and features.grad_fn is not None
        self.embedded = features if has_weights else None
        values = self.features.flatten(1).index_select(1, columns)
        super().__init__(net=model, values=values, columns=columns)

    @override
    def net_input(self, values: Tensor, *, detached: bool) -> Tensor:
        num_copies = len(values) // len(self.features)
        inputs = self.features.flatten(1)
        if self.embedded is not None and not detached:  # an embedding comes before the features
            inputs = self.embedded.flatten(1)
            own = inputs.index_select(1, self.columns)
            values = values + (own - own.detach()).repeat(num_copies, 1)
        inputs = inputs if num_copies == 1 else inputs.repeat(num_copies, 1)
        inputs = inputs.index_copy(1, self.columns, values)
        return inputs.view(len(values), *self.features.shape[1:])

    @override
    def feature_gradient(self, gradient: Tensor, *, detached: bool = False) -> Tensor:
        del detached
        return gradient.flatten(1).index_select(1, self.columns)

    @override
    def net_input_box(self, interval: Interval) -> Box:
        if isinstance(self.net, FeatureModel) and not self.net.batch.x.is_floating_point():
            raise UnsupportedLayerError(
                "Expected a model of texts that reads the mean of its embeddings, such as "
                f"text_mlp, but {type(self.net.model).__name__} has no bounds behind its "
                "embedding. Use rr.models.text_mlp, or a term without bounds."
            )
        center, radius = _center_and_radius(interval)
        full_radius = torch.zeros_like(self.features).flatten(1)
        full_radius = full_radius.index_copy(1, self.columns, radius).view_as(self.features)
        return Box(self.net_input(center, detached=False), full_radius)

    @override
    def feature_gradient_box(self, gradient: Box) -> Box:
        return Box(self.feature_gradient(gradient.center), self.feature_gradient(gradient.radius))


class PooledAdapter(FeatureAdapter):
    r"""Enters behind the weighted mean of a text's embeddings, which is all that its net reads.

    The net's input is :math:`z + \sum_t w_t (v_t - e_t)` over the tokens that masks touch.

    Args:
        model: The model as a function of embeddings; its net has ``pooling_weights`` and ``head``.
        features: The embeddings ``(N, T, E)``; they may carry the graph of their table.
        columns: The indices of the flattened features that move, all of a token or none.
    """

    def __init__(self, *, model: FeatureModel, features: Tensor, columns: Tensor) -> None:
        net: Any = model.model
        batch = model.batch
        weights = net.pooling_weights(batch.x, **(batch.inputs or {})).to(features)
        values = features.detach().flatten(1).index_select(1, columns)
        super().__init__(net=net.head, values=values, columns=columns)
        self.width = features.shape[2]
        tokens = torch.div(columns[:: self.width], self.width, rounding_mode="floor")
        self.weights = weights.index_select(1, tokens)[..., None]  # (N, touched tokens, 1)
        self.pooled = (weights[..., None] * features).sum(dim=1)

    @override
    def net_input(self, values: Tensor, *, detached: bool) -> Tensor:
        base = self.pooled.detach() if detached else self.pooled
        changes = values.view(-1, *self.values.shape) - self.values  # (K, N, M)
        net_input: Tensor = (self._pool(changes) + base).flatten(0, 1)
        return net_input

    @override
    def feature_gradient(self, gradient: Tensor, *, detached: bool = False) -> Tensor:
        del detached  # the mean has no weights
        copies = gradient.view(-1, *self.pooled.shape)[..., None, :]
        at_features: Tensor = (copies * self.weights).flatten(2).flatten(0, 1)
        return at_features

    @override
    def nominal_gradient(self, gradient: Tensor) -> Tensor:
        return gradient.flatten(1).index_select(1, self.columns)

    @override
    def net_input_box(self, interval: Interval) -> Box:
        center, radius = _center_and_radius(interval)
        return Box(self.net_input(center, detached=False), self._pool(radius[None])[0])

    @override
    def feature_gradient_box(self, gradient: Box) -> Box:
        return Box(self.feature_gradient(gradient.center), self.feature_gradient(gradient.radius))

    def _pool(self, values: Tensor) -> Tensor:
        tokens = values.reshape(*values.shape[:2], -1, self.width)  # (K, N, touched tokens, E)
        pooled: Tensor = (tokens * self.weights).sum(dim=2)
        return pooled


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
    if isinstance(model, FeatureModel) and model.pools:
        return PooledAdapter(model=model, features=features, columns=columns)
    if split is None:
        return InputAdapter(model=model, features=features, columns=columns)
    values = features.flatten(1).index_select(1, columns)
    output = first_output[split.name]
    return FirstLayerAdapter(split=split, first_output=output, values=values, columns=columns)


def _center_and_radius(interval: Interval) -> tuple[Tensor, Tensor]:
    lower, upper = interval
    return (lower + upper) / 2, (upper - lower) / 2
