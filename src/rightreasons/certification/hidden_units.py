"""How large a net is where it costs: the numbers that its layers give for one sample."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rightreasons.recording import recorded_outputs

__all__ = ["num_hidden_units"]


def num_hidden_units(model: nn.Module, x: Tensor) -> int:
    """Count what all layers with weights give for one sample, the logits included.

    Linear relaxation carries a row for each of them back to the input.

    Args:
        model: In test mode.
        x: Some samples ``(N, *S)``; the first is used.

    Example:
        >>> net = nn.Sequential(nn.Linear(4, 7), nn.ReLU(), nn.Linear(7, 2))
        >>> num_hidden_units(net, torch.rand(1, 4))
        9
    """
    outputs: dict[str, Tensor] = {}
    layers = [name for name, module in model.named_modules() if _has_own_weights(module) and name]
    with torch.no_grad(), recorded_outputs(model, layers, outputs):
        logits = model(x[:1])
    return sum(output.numel() for output in outputs.values()) if layers else logits.numel()


def _has_own_weights(module: nn.Module) -> bool:
    return next(module.parameters(recurse=False), None) is not None
