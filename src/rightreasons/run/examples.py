"""Examples of a run: test samples for pictures, as they are and with masked parts exchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rightreasons.core.files import write_atomically
from rightreasons.datasets import Dataset
from rightreasons.datasets.dataset import spread_over_classes
from rightreasons.datasets.wrappers import select
from rightreasons.metrics import SwapAccuracy
from rightreasons.probe.probe import Probe, move_to_model
from rightreasons.types import Batch

__all__ = ["name_tokens", "sample_columns", "write_examples"]

NUM_EXAMPLES = 12
NUM_DONORS = 200
LONGEST_TOKEN = 80
EXCHANGES = ("exchanged", "pasted")


def write_examples(path: Path, model: nn.Module, data: Dataset) -> None:
    """Write test samples for pictures, with the input gradient of the predicted class."""
    rows = spread_over_classes(data.labels, NUM_EXAMPLES)
    batch = move_to_model(data.take(rows), model)
    model.eval()
    logits = Probe(model, batch, needs_gradient=True, create_graph=False).logits
    predicted = logits.softmax(dim=1).max(dim=1).indices
    at_prediction = Probe(
        model, batch.replace(y=predicted), needs_gradient=True, create_graph=False
    )
    attribution = at_prediction.gradient("logit")
    if not batch.x.is_floating_point():  # the gradient alone may be the same for all words
        attribution = (attribution * at_prediction.features).sum(dim=2)
    columns = sample_columns(batch, rows, logits, attribution)
    if data.vocabulary is not None and not batch.x.is_floating_point():
        columns["tokens"] = name_tokens(batch, data.vocabulary)
    columns |= _counterfactual_columns(model, data, rows)
    write_atomically(path, lambda file: np.savez_compressed(file, **columns))  # type: ignore[arg-type]


def sample_columns(
    batch: Batch, rows: Tensor, logits: Tensor, attribution: Tensor
) -> dict[str, NDArray[Any]]:
    """Arrays with one row per sample, for pictures.

    Args:
        batch: The samples.
        rows: Their row numbers in the data set.
        logits: What the model gives for them.
        attribution: Their attribution maps.

    Returns:
        ``x``, ``y``, ``index``, ``prediction`` and its ``probability``, ``attribution``, and
        ``mask`` if the samples have masks.
    """
    probability, predicted = logits.softmax(dim=1).max(dim=1)
    columns = {
        "x": batch.x,
        "y": batch.y,
        "index": rows,
        "prediction": predicted,
        "probability": probability,
        "attribution": attribution,
    }
    if batch.mask is not None:
        columns["mask"] = batch.mask
    return _to_arrays(columns)


def _to_arrays(columns: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Columns for NumPy, which has no bfloat16."""
    plain = {n: c.float() if c.dtype == torch.bfloat16 else c for n, c in columns.items()}
    return {name: column.detach().cpu().numpy() for name, column in plain.items()}


def name_tokens(batch: Batch, vocabulary: Sequence[str]) -> NDArray[Any]:
    """The tokens of texts as strings ``(N, T)``, cut if very long; padding is empty."""
    used = torch.ones_like(batch.x) if batch.inputs is None else batch.inputs["attention_mask"]
    words = np.array([word[:LONGEST_TOKEN] for word in vocabulary])
    return np.where(used.bool().cpu().numpy(), words[batch.x.cpu().numpy()], "")


def _counterfactual_columns(
    model: nn.Module, data: Dataset, rows: Tensor
) -> dict[str, NDArray[Any]]:
    """The same samples after the masked part was exchanged; nothing without masks to exchange.

    Several exchanges are tried; shown is the one that changes a sample most, for every model.
    """
    if not data.has_masks:
        return {}
    donors = spread_over_classes(data.labels, NUM_DONORS)  # so that few images are read
    shown = torch.unique(torch.cat([rows, donors]))
    some, swap = select(data, shown), SwapAccuracy()
    batch = move_to_model(some.take(torch.searchsorted(shown, rows)), model)
    if not batch.x.is_floating_point():
        return {}
    swap.prepare(some)
    if not swap.num_masked:
        return {}
    with torch.no_grad():
        probe = Probe(model, batch)
        copies = swap.alter(probe)
        copies = copies[[swap.describe(draw) in EXCHANGES for draw in range(len(copies))]]
        most = (copies - batch.x).abs().flatten(2).sum(dim=2).argmax(dim=0)
        altered = copies[most, torch.arange(len(most), device=most.device)]
        probability, prediction = probe.at(altered).logits.softmax(dim=1).max(dim=1)
    columns = {
        "swapped": altered,
        "swapped_prediction": prediction,
        "swapped_probability": probability,
        "changed": (altered != batch.x).flatten(1).any(dim=1),
    }
    return _to_arrays(columns)
