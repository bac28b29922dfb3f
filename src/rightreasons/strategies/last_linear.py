"""The last linear layer of a model, which maps features to logits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from rightreasons.core.model_modes import test_time_mode
from rightreasons.datasets import Dataset
from rightreasons.errors import InvalidSettingError
from rightreasons.probe.probe import move_to_model

__all__ = ["compute_features", "last_linear", "read_inputs"]

BATCH_SIZE = 500


def last_linear(model: nn.Module, x: Tensor) -> nn.Linear:
    """Find the linear layer whose output is the logits.

    Args:
        model: Gives logits.
        x: Inputs it can take; one sample is passed through.

    Example:
        >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        >>> last_linear(model, torch.zeros(1, 3))
        Linear(in_features=4, out_features=2, bias=True)
    """
    outputs: list[tuple[nn.Linear, Tensor]] = []

    def record(module: nn.Module, inputs: object, output: Tensor) -> None:
        del inputs
        if isinstance(module, nn.Linear):
            outputs.append((module, output))

    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    hooks = [module.register_forward_hook(record) for module in linear]
    try:
        with torch.no_grad(), test_time_mode(model):
            logits = model(x[:1])
    finally:
        for hook in hooks:
            hook.remove()
    last = [module for module, output in outputs if output is logits]
    if not last:
        raise InvalidSettingError(
            "Expected a model whose logits are the output of an nn.Linear, its last layer, but "
            f"{type(model).__name__} has none. Use a model that ends with one."
        )
    return last[-1]


@contextmanager
def read_inputs(layer: nn.Module) -> Iterator[list[Tensor]]:
    """Record the inputs of a layer within the context."""
    inputs: list[Tensor] = []
    hook = layer.register_forward_pre_hook(lambda module, args: inputs.append(args[0]))
    try:
        yield inputs
    finally:
        hook.remove()


def compute_features(model: nn.Module, layer: nn.Module, data: Dataset) -> Tensor:
    """Compute the inputs of ``layer`` for each sample, ``(N, F)``, in test mode."""
    features = []
    for batch in data.batches(torch.split(torch.arange(len(data)), BATCH_SIZE)):
        with torch.no_grad(), test_time_mode(model), read_inputs(layer) as inputs:
            model(move_to_model(batch, model).x)
        features.append(inputs[-1].cpu())
    return torch.cat(features)
