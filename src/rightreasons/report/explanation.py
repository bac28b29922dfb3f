"""The page of explanations: some samples of a run with their maps."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from rightreasons.core.checks import check_choice, check_integer
from rightreasons.core.files import writable_folder, write_atomically
from rightreasons.datasets import Card, Dataset
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.explainers import Explainer
from rightreasons.metrics.explanation_metric import create_explainers
from rightreasons.probe.probe import Probe, move_to_model
from rightreasons.report.picture import overlay, portrait, share_in_mask
from rightreasons.report.wording import percent
from rightreasons.run.run import SPLITS, Run, Split, sample_columns, spread_over_classes

__all__ = [
    "EXPLAINED",
    "ExplainedSample",
    "explain_run",
    "explained_columns",
    "explained_samples",
    "explanation_page",
    "explanation_sheet",
]

GAP = 8
PAIRS_A_ROW = 4


@dataclass(frozen=True)
class ExplainedSample:
    """A sample and its explanation, ready to be shown.

    Args:
        index: Its row in the data.
        label: Name of its class.
        prediction: Name of the predicted class.
        probability: Probability of the predicted class.
        is_right: Whether it is the label's.
        picture: Address of the sample, its mask outlined.
        attribution: Address of the attribution over the sample.
        in_mask: Share of the attribution inside the mask; empty without a mask.
    """

    index: int
    label: str
    prediction: str
    probability: str
    is_right: bool
    picture: str
    attribution: str
    in_mask: str


def explained_samples(columns: Mapping[str, NDArray[Any]], card: Card) -> list[ExplainedSample]:
    """Draw samples and attributions.

    Args:
        columns: Arrays ``x`` ``(N, C, H, W)``, ``y``, ``index``, ``prediction``, ``probability``,
            ``attribution`` and perhaps ``mask``, one row a sample.
        card: The card of the data set.
    """
    masks = columns.get("mask")
    samples = []
    for row, index in enumerate(columns["index"].tolist()):
        x, attribution = columns["x"][row], columns["attribution"][row]
        mask = None if masks is None else masks[row]
        if mask is not None and len(mask) not in (1, len(attribution)):
            mask = mask.max(axis=0, keepdims=True)  # a map of all channels
        inside = share_in_mask(attribution, mask)
        y, predicted = int(columns["y"][row]), int(columns["prediction"][row])
        samples.append(
            ExplainedSample(
                index=index,
                label=card.classes[y],
                prediction=card.classes[predicted],
                probability=percent(float(columns["probability"][row])),
                is_right=predicted == y,
                picture=portrait(x, mask, card.valid_range),
                attribution=overlay(x, attribution, mask, card.valid_range),
                in_mask="" if inside is None else percent(inside),
            )
        )
    return samples


def explanation_page(samples: list[ExplainedSample], *, title: str, explained: str) -> str:
    """The page as text: one HTML file that needs no other.

    Args:
        samples: To be shown.
        title: Names the explainer and the run.
        explained: What was explained, as the end of a sentence.
    """
    environment = Environment(
        loader=PackageLoader("rightreasons.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("explanation.html").render(
        samples=samples,
        title=title,
        explained=explained,
        has_masks=any(sample.in_mask for sample in samples),
    )


def explanation_sheet(samples: list[ExplainedSample]) -> bytes:
    """All pairs of sample and attribution on one picture, as the bytes of a PNG."""
    pairs = [[_pixels(sample.picture), _pixels(sample.attribution)] for sample in samples]
    height = pairs[0][0].shape[0]
    gap = np.full((height, GAP, 3), 255, np.uint8)
    blank = np.full_like(np.concatenate([*pairs[0], gap], axis=1), 255)
    cells = [np.concatenate([*pair, gap], axis=1) for pair in pairs]
    cells += [blank] * (-len(cells) % min(PAIRS_A_ROW, len(cells)))
    a_row = min(PAIRS_A_ROW, len(pairs))
    rows = [np.concatenate(cells[n : n + a_row], axis=1) for n in range(0, len(cells), a_row)]
    line = np.full((GAP, rows[0].shape[1], 3), 255, np.uint8)
    sheet = np.concatenate([part for row in rows for part in (row, line)])
    file = io.BytesIO()
    Image.fromarray(sheet).save(file, "PNG", optimize=True)
    return file.getvalue()


def _pixels(address: str) -> NDArray[np.uint8]:
    content = base64.b64decode(address.partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


EXPLAINED: tuple[Literal["prediction", "label"], ...] = ("prediction", "label")
SUFFIXES = (".html", ".png", ".npz")


def explain_run(
    folder: str | Path,
    out: str | Path,
    *,
    explainer: str | Explainer = "input_gradient",
    num_samples: int = 16,
    explained: Literal["prediction", "label"] = "prediction",
    split: Split = "test",
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
    split = check_choice("split", split, SPLITS)
    create_explainers(explainer)  # so that a mistake shows before the data are read
    run = Run.open(folder, data_dir)
    part = run.split(split, purpose="explain them")
    ((name, made),) = create_explainers(explainer, run.data.card.valid_range).items()
    columns = explained_columns(
        run.model, part, explainer=made, num_samples=num_samples, explained=explained
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
        num_samples: Number of samples to explain.
        explained: Whether the predicted class is explained, or the label.

    Returns:
        ``x``, ``y``, ``index`` (place in the data), ``prediction``, ``probability`` of it,
        ``attribution``, and ``mask`` if the data have masks.
    """
    explained = check_choice("explained", explained, EXPLAINED)
    num_samples = check_integer("num_samples", num_samples)
    rows = spread_over_classes(data.labels, num_samples)
    batch = move_to_model(data.take(rows), model)
    with torch.no_grad():
        logits = Probe.at_test_time(model, batch).logits
    y = logits.softmax(dim=1).max(dim=1).indices if explained == "prediction" else batch.y
    return sample_columns(batch, rows, logits, explainer(model, batch.x, y))
