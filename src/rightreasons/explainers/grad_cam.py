"""Class activation maps: Grad-CAM and XGrad-CAM."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from rightreasons.core.model_modes import (
    innermost,
    refuse_dead_ends,
    translate_autograd_errors,
)
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.explainers.explainer import Explainer
from rightreasons.explainers.feature_maps import Reshape, checked_reshape
from rightreasons.explainers.spatial_layers import last_spatial_layer, maps_of
from rightreasons.explainers.subject import Subject
from rightreasons.probe.probe import Probe
from rightreasons.types import Target

__all__ = ["ClassActivation", "GradCAM", "XGradCAM", "activation_gradients"]


def activation_gradients(
    probe: Probe,
    layers: Sequence[str],
    target: Target,
    *,
    reshape: Reshape | None = None,
    last: bool = False,
) -> list[tuple[Tensor, Tensor]]:
    """The maps of some layers, and the target's gradient at each of them.

    Args:
        probe: A probe with ``layers`` and ``needs_gradient=True``. Its ``create_graph`` decides
            whether the gradients have a graph.
        layers: Names of layers that give maps.
        target: The number of the prediction that is differentiated.
        reshape: How outputs become maps, see `ClassActivation`.
        last: Whether this pass is not differentiated again, so that its memory is freed.

    Returns:
        A map ``(N, C, H, W)`` and its gradient for each layer.
    """
    activations = []
    for layer in layers:
        activation = probe.activations.get(layer)
        if not isinstance(activation, Tensor) or (activation.ndim < 3 and not callable(reshape)):
            got = tuple(activation.shape) if isinstance(activation, Tensor) else "no tensor"
            raise InvalidSettingError(
                f"Expected the layer {layer!r} to give maps (N, C, H, W) or tokens (N, T, C), but "
                f"got {got}. Name a convolutional layer, or a block of a transformer."
            )
        activations.append(activation)
    named = dict(zip(layers, activations, strict=True))
    maps = maps_of(innermost(probe.model), probe.features.detach(), named, reshape)
    with translate_autograd_errors(), torch.enable_grad():
        gradients = torch.autograd.grad(
            target(probe.logits, probe.batch.y).sum(),
            activations,
            create_graph=probe.create_graph,
            retain_graph=probe.create_graph or not last,
            allow_unused=True,
        )
    for layer, gradient in zip(layers, gradients, strict=True):
        if gradient is None:
            raise InvalidSettingError(
                f"Expected a layer the logits depend on, but they do not depend on {layer!r}."
            )
        if probe.create_graph:
            refuse_dead_ends(gradient)
    return [
        (maps[layer](activation), maps[layer](gradient))
        for layer, activation, gradient in zip(layers, activations, gradients, strict=True)
    ]


class ClassActivation(Explainer):
    r"""A map of a layer's features :math:`A_k`, resized to the input.

    .. math:: h(x) = \mathrm{resize}\Bigl(\max\bigl(\sum_k w_k A_k, 0\bigr)\Bigr)

    Subclasses define the weights :math:`w_k`. Resizing is bilinear. One backward pass serves all
    layers.

    Args:
        layers: Names of layers that give maps, or one name. None takes the last one
            (`last_spatial_layer`).
        target: The number of the prediction that is explained.
        reshape: How outputs of these layers become maps: ``"channels_first"``,
            ``"channels_last"``, ``"tokens"``, or a function that makes maps ``(N, C, H, W)`` by
            moving and dropping entries. None finds it out, at the cost of a few small passes for
            a model.

    Shape:
        x ``(N, C, H, W)``; result ``(N, L, H, W)`` for L layers: a map serves all channels.
    """

    def __init__(
        self,
        *,
        layers: Sequence[str] | str | None = None,
        target: Target | str = Target.LOGIT,
        reshape: Reshape | None = None,
    ) -> None:
        super().__init__(target=target)
        self.reshape = checked_reshape(reshape)
        self.layers = (layers,) if isinstance(layers, str) else layers and tuple(layers)
        if self.layers is not None and not self.layers:
            raise InvalidSettingError("Expected `layers` to name at least one layer, but got none.")

    @abstractmethod
    def channel_weights(self, activation: Tensor, gradient: Tensor) -> Tensor:
        """The channels' weights ``(N, C)`` from activations and their gradient ``(N, C, H, W)``."""

    @override
    def attribution(self, subject: Subject) -> Tensor:
        subject.refuse_tokens(type(self).__name__)
        if subject.x.ndim != 4:
            raise InvalidBatchError(
                f"Expected images (N, C, H, W) for {type(self).__name__}, but got shape "
                f"{tuple(subject.x.shape)}."
            )
        layers = self.layers or (last_spatial_layer(subject.model, subject.x),)
        maps = []
        for activation, gradient in self._activations_and_gradients(subject, layers):
            weights = self.channel_weights(activation, gradient)
            heat = torch.einsum("nc,nchw->nhw", weights, activation).clamp(min=0)
            maps.append(
                functional.interpolate(heat[:, None], size=subject.x.shape[2:], mode="bilinear")
            )
        return torch.cat(maps, dim=1)

    def _activations_and_gradients(
        self, subject: Subject, layers: Sequence[str]
    ) -> list[tuple[Tensor, Tensor]]:
        """Activations and gradients; without ``create_graph`` the pass's graph is freed here."""
        probe = subject.probe(layers=layers)
        pairs = activation_gradients(probe, layers, self.target, reshape=self.reshape, last=True)
        if subject.create_graph:
            return pairs
        return [(activation.detach(), gradient) for activation, gradient in pairs]


@final
class GradCAM(ClassActivation):
    r"""Grad-CAM: feature maps weighted by their mean gradient.

    .. math:: w_k = \frac{1}{HW} \sum_{ij} \frac{\partial t}{\partial A_{kij}}

    Args:
        layers: Names of layers that give maps; None takes the last one.
        target: The number of the prediction that is explained.
        reshape: How outputs become maps, see `ClassActivation`; None finds it out.

    Example:
        >>> import torch
        >>> from rightreasons.models import small_cnn
        >>> x, y = torch.rand(2, 3, 28, 28), torch.tensor([0, 1])
        >>> GradCAM()(small_cnn(classes=2), x, y).shape
        torch.Size([2, 1, 28, 28])

    References:
        selvaraju2017grad
    """

    @override
    def channel_weights(self, activation: Tensor, gradient: Tensor) -> Tensor:
        del activation
        return gradient.mean(dim=(2, 3))


@final
class XGradCAM(ClassActivation):
    r"""XGrad-CAM: feature maps weighted by the gradient where they are active.

    .. math:: w_k = \sum_{ij} \frac{A_{kij}}{\sum_{i'j'} A_{ki'j'}}
        \frac{\partial t}{\partial A_{kij}}

    The weights suit activations of one sign, as behind a ReLU. A map that sums to zero gets the
    weight zero.

    Args:
        layers: Names of layers that give maps; None takes the last one.
        target: The number of the prediction that is explained.
        reshape: How outputs become maps, see `ClassActivation`; None finds it out.

    Example:
        >>> from rightreasons.models import small_cnn
        >>> x, y = torch.rand(2, 3, 28, 28), torch.tensor([0, 1])
        >>> XGradCAM()(small_cnn(classes=2), x, y).shape
        torch.Size([2, 1, 28, 28])

    References:
        fu2020axiom
    """

    @override
    def channel_weights(self, activation: Tensor, gradient: Tensor) -> Tensor:
        total = activation.sum(dim=(2, 3))
        weighted = (activation * gradient).sum(dim=(2, 3))
        is_silent = total == 0
        return torch.where(is_silent, 0, weighted / torch.where(is_silent, 1, total))
