"""Explain some samples of a run, as a page, a picture or arrays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rightreasons.checkpoint import writable_folder, write_atomically
from rightreasons.datasets import Dataset
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.explainers import Explainer
from rightreasons.metrics.attribution_choice import named_explainers
from rightreasons.probe import Probe, placed
from rightreasons.report.explanation_page import (
    explained_samples,
    explanation_page,
    explanation_sheet,
)
from rightreasons.run import load_run
from rightreasons.setting import checked_choice, checked_number

__all__ = ["EXPLAINED", "explain_run", "explained_columns"]

EXPLAINED: tuple[Literal["prediction", "label"], ...] = ("prediction", "label")
SPLITS: tuple[Literal["test", "validation"], ...] = ("test", "validation")
SUFFIXES = (".html", ".png", ".npz")


def explain_run(
    folder: str | Path,
    out: str | Path,
    *,
    explainer: str | Explainer = "input_gradient",
    num_samples: int = 16,
    explained: Literal["prediction", "label"] = "prediction",
    split: Literal["test", "validation"] = "test",
    data_dir: str | None = None,
) -> Path:
    """Explain samples of a finished run, spread over the classes, and write what was found.

    Args:
        folder: The run's.
        out: The file to write: a self-contained page (``.html``), a picture (``.png``) or arrays
            (``.npz``: those of `explained_columns`).
        explainer: A name, or an explainer with settings; LRP by name takes the data's valid range.
        num_samples: How many, or all there are if these are fewer.
        explained: Whether the predicted class is explained, or the label.
        split: The part of the data.
        data_dir: Where the data set's files are, if not where they were.

    Returns:
        Where it was written.
    """
    path = Path(out)
    if path.suffix not in SUFFIXES:
        raise InvalidSettingError(
            f"Expected `out` to end in {', '.join(SUFFIXES)}, but got {path.name!r}."
        )
    split = checked_choice("split", split, SPLITS)
    named_explainers(explainer)  # so that a mistake shows before the data are read
    run = load_run(folder)
    config = run.config if data_dir is None else replace(run.config, data_dir=data_dir)
    data = config.load_data()
    part = data.test if split == "test" else data.val
    if part is None:
        raise InvalidSettingError(
            f"Expected a run with validation data to explain them, but {folder} has none. Use "
            'split="test".'
        )
    ((name, made),) = named_explainers(explainer, data.card.valid_range).items()
    columns = explained_columns(
        run.load_model(data), part, explainer=made, num_samples=num_samples, explained=explained
    )
    writable_folder(path.parent)
    if path.suffix == ".npz":
        write_atomically(path, lambda file: np.savez_compressed(file, **columns))  # type: ignore[arg-type]
        return path
    if columns["x"].ndim != 4:
        raise InvalidBatchError(
            f"Expected images (N, C, H, W) to draw, but got shape {columns['x'].shape}. Write "
            ".npz instead."
        )
    samples = explained_samples(columns, part.card)
    if path.suffix == ".png":
        content = explanation_sheet(samples)
    else:
        what = "the predicted class" if explained == "prediction" else "the label"
        title = f"{name} of {run.folder.resolve().name}"
        content = explanation_page(samples, title=title, explained=what).encode()
    write_atomically(path, lambda file: file.write(content))
    return path


def explained_columns(
    model: nn.Module,
    data: Dataset,
    *,
    explainer: Explainer,
    num_samples: int = 16,
    explained: Literal["prediction", "label"] = "prediction",
) -> dict[str, NDArray[Any]]:
    """Samples with what the model makes of them and why, one row each.

    Args:
        model: Gives logits ``(N, K)``.
        data: Where samples are taken from, spread over the classes.
        explainer: What attributes.
        num_samples: See `explain_run`.
        explained: See `explain_run`.

    Returns:
        ``x``, ``y``, ``index`` (place in the data), ``prediction``, ``probability`` of it,
        ``attribution``, and ``mask`` if the data have masks.
    """
    explained = checked_choice("explained", explained, EXPLAINED)
    num_samples = checked_number("num_samples", num_samples)
    order = torch.argsort(data.labels, stable=True)
    rows = order[torch.linspace(0, len(order) - 1, min(num_samples, len(order))).long()]
    batch = placed(data.take(rows), model)
    with torch.no_grad():
        logits = Probe.at_test_time(model, batch).logits
    probability, predicted = logits.softmax(dim=1).max(dim=1)
    y = predicted if explained == "prediction" else batch.y
    columns = {
        "x": batch.x,
        "y": batch.y,
        "index": rows,
        "prediction": predicted,
        "probability": probability,
        "attribution": explainer(model, batch.x, y),
    }
    if batch.mask is not None:
        columns["mask"] = batch.mask
    return {name: column.detach().cpu().numpy() for name, column in columns.items()}
