"""Some test samples of a run, kept for pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from rightreasons.checkpoint import write_atomically
from rightreasons.datasets import Dataset
from rightreasons.probe import Probe, placed

__all__ = ["write_examples"]

NUM_EXAMPLES = 12


def write_examples(path: Path, model: nn.Module, data: Dataset) -> None:
    """Test samples spread over the classes, for pictures."""
    order = torch.argsort(data.labels, stable=True)
    rows = order[torch.linspace(0, len(order) - 1, min(NUM_EXAMPLES, len(order))).long()]
    batch = placed(data.take(rows), model)
    model.eval()
    probe = Probe(model, batch, needs_gradient=True, create_graph=False)
    probability, predicted = probe.logits.softmax(dim=1).max(dim=1)
    at_prediction = Probe(
        model, batch.replace(y=predicted), needs_gradient=True, create_graph=False
    )
    columns = {
        "x": batch.x,
        "y": batch.y,
        "index": rows,
        "prediction": predicted,
        "probability": probability,
        "attribution": at_prediction.gradient("logit"),
    }
    if batch.mask is not None:
        columns["mask"] = batch.mask
    arrays = {name: column.detach().cpu().numpy() for name, column in columns.items()}
    write_atomically(path, lambda file: np.savez_compressed(file, **arrays))  # type: ignore[arg-type]
