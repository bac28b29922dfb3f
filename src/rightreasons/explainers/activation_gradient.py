"""Gradients at the layers of a pass that was made, all by one backward pass."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rightreasons.double_backward import explained, refuse_dead_ends
from rightreasons.errors import InvalidSettingError
from rightreasons.probe import Probe
from rightreasons.target import Target

__all__ = ["activation_gradients"]


def activation_gradients(
    probe: Probe, layers: Sequence[str], target: Target, *, last: bool = False
) -> list[tuple[Tensor, Tensor]]:
    """The maps that layers gave, and the target's gradient at each of them.

    Args:
        probe: Made with ``layers`` and ``needs_gradient=True``; gradients have a graph if its
            ``create_graph`` says so.
        layers: Names of layers that give maps ``(N, C, H, W)``.
        target: What is differentiated.
        last: Whether nobody differentiates this pass again, so that its memory may go.

    Returns:
        An activation and its gradient for each layer.
    """
    activations = []
    for layer in layers:
        activation = probe.activations.get(layer)
        if not isinstance(activation, Tensor) or activation.ndim != 4:
            got = tuple(activation.shape) if isinstance(activation, Tensor) else "no tensor"
            raise InvalidSettingError(
                f"Expected the layer {layer!r} to give maps (N, C, H, W), but got {got}. Name "
                "a convolutional layer."
            )
        activations.append(activation)
    with explained(), torch.enable_grad():
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
    return list(zip(activations, gradients, strict=True))
