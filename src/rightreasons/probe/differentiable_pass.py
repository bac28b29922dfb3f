"""The tensors of a pass, and its gradients for each sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rightreasons.core.model_modes import refuse_dead_ends, translate_autograd_errors
from rightreasons.errors import DoubleBackwardError
from rightreasons.probe.window import Trunk
from rightreasons.types import Target

__all__ = ["DifferentiablePass"]


@dataclass
class DifferentiablePass:
    """The tensors of a pass, and the gradients that were taken of it.

    A probe and its masked features share it. If the features held the probe, which holds them, the
    graph of a finished step would stay in memory until the garbage collector finds the cycle.
    """

    logits: Tensor
    y: Tensor
    features: Tensor
    first_output: Tensor | None
    create_graph: bool
    gradients: dict[Target, Tensor] = field(default_factory=dict)
    trunk: Trunk | None = None
    trunk_outputs: Mapping[str, Tensor] = field(default_factory=dict)

    def gradient(self, target: Target) -> Tensor:
        """The gradient of a target for each sample at the features; computed once."""
        if target not in self.gradients:
            if not self.features.requires_grad:
                raise DoubleBackwardError(
                    "Expected a probe made with `needs_gradient=True` before asking for gradients. "
                    "A term or metric that reads `probe.gradient` sets `needs_gradient = True`."
                )
            self.gradients[target] = self._gradient_at(self.features, target)
        return self.gradients[target]

    def gradient_at_net_input(self, target: Target) -> Tensor:
        """The gradient at the first layer's output in a split net, else at the features.

        With a trunk, only the window around the masks has its gradient.
        """
        if self.first_output is None:
            return self.gradient(target)
        behind = self._gradient_at(self.first_output, target)
        if self.trunk is None:
            return behind
        return self.trunk.input_gradient(behind, self.features, self.trunk_outputs)

    def _gradient_at(self, point: Tensor, target: Target) -> Tensor:
        if not self.logits.requires_grad:
            raise DoubleBackwardError(
                "Expected logits that depend on the input, but the model cuts the graph. Remove "
                "`detach()`, `torch.no_grad()` or `torch.inference_mode()` from its forward."
            )
        with translate_autograd_errors(), torch.enable_grad():
            value = target(self.logits, self.y).sum()
            (gradient,) = torch.autograd.grad(
                value, point, create_graph=self.create_graph, retain_graph=True
            )
        if self.create_graph:
            refuse_dead_ends(gradient)
        return gradient
