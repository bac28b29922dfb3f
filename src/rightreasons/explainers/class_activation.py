"""Class activation maps: feature maps of a layer, weighed by what the prediction makes of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.explainers.activation_gradient import activation_gradients
from rightreasons.explainers.explainer import Explainer
from rightreasons.explainers.spatial_layers import last_spatial_layer
from rightreasons.explainers.subject import Subject
from rightreasons.target import Target

__all__ = ["ClassActivation"]


class ClassActivation(Explainer):
    r"""A map of a layer's features :math:`A_k`, resized to the input.

    .. math:: h(x) = \mathrm{resize}\Bigl(\max\bigl(\sum_k w_k A_k, 0\bigr)\Bigr)

    Subclasses say what the weights :math:`w_k` are. Resizing is bilinear. One backward pass serves
    all layers, however many there are.

    Args:
        layers: Names of layers that give maps ``(N, C, H, W)``, or one name. None looks for the
            last one (`last_spatial_layer`), for one more pass of one sample.
        target: See `Explainer`.

    Shape:
        x ``(N, C, H, W)``; result ``(N, L, H, W)`` for L layers: a map serves all channels.
    """

    def __init__(
        self,
        *,
        layers: Sequence[str] | str | None = None,
        target: Target | str = Target.LOGIT,
    ) -> None:
        super().__init__(target=target)
        self.layers = (layers,) if isinstance(layers, str) else layers and tuple(layers)
        if self.layers is not None and not self.layers:
            raise InvalidSettingError("Expected `layers` to name at least one layer, but got none.")

    @abstractmethod
    def channel_weights(self, activation: Tensor, gradient: Tensor) -> Tensor:
        """Weigh the channels: activations and their gradient ``(N, C, H, W)`` -> ``(N, C)``."""

    def attribution(self, subject: Subject) -> Tensor:
        """See `Explainer.attribution`."""
        subject.refuse_tokens(type(self).__name__)
        if subject.x.ndim != 4:
            raise InvalidBatchError(
                f"Expected images (N, C, H, W) for {type(self).__name__}, but got shape "
                f"{tuple(subject.x.shape)}."
            )
        layers = self.layers or (last_spatial_layer(subject.model, subject.x),)
        maps = []
        for activation, gradient in self._read(subject, layers):
            weights = self.channel_weights(activation, gradient)
            heat = torch.einsum("nc,nchw->nhw", weights, activation).clamp(min=0)
            maps.append(
                functional.interpolate(heat[:, None], size=subject.x.shape[2:], mode="bilinear")
            )
        return torch.cat(maps, dim=1)

    def _read(self, subject: Subject, layers: Sequence[str]) -> list[tuple[Tensor, Tensor]]:
        """Activations and their gradients; where no graph is wanted the pass's own ends here."""
        probe = subject.probe(layers=layers)
        pairs = activation_gradients(probe, layers, self.target, last=True)
        if subject.create_graph:
            return pairs
        return [(activation.detach(), gradient) for activation, gradient in pairs]
