"""The last linear layer of a model, which maps features to logits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from rightreasons.core.model_modes import test_time_mode
from rightreasons.datasets import Dataset
from rightreasons.models.surgery import last_linear
from rightreasons.probe.embeddings import call_model
from rightreasons.probe.probe import move_to_model

__all__ = ["compute_features", "last_linear", "read_inputs"]

BATCH_SIZE = 500


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
            moved = move_to_model(batch, model)
            call_model(model, moved.x, moved.inputs)
        features.append(inputs[-1].cpu())
    return torch.cat(features)
