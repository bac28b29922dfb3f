"""The page of explanations: some samples of a run with their maps."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from rightreasons.core.checks import check_choice, check_integer
from rightreasons.core.files import writable_folder, write_atomically
from rightreasons.datasets import Card, Dataset
from rightreasons.datasets.dataset import spread_over_classes
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.explainers import Explainer, InputGradient, SmoothGrad
from rightreasons.metrics.explanation_metric import create_explainers
from rightreasons.probe.probe import Probe, move_to_model
from rightreasons.report.picture import (
    ShownWord,
    draw_overlay,
    draw_sample,
    shade_words,
    share_in_mask,
)
from rightreasons.report.wording import percent, render_template
from rightreasons.run.examples import name_tokens, sample_columns
from rightreasons.run.run import SPLITS, Run, Split

__all__ = [
    "EXPLAINED",
    "ExplainedSample",
    "draw_samples",
    "draw_sheet",
    "explain_run",
    "explain_samples",
    "render_explanations",
]

GAP = 8
PAIRS_A_ROW = 4


@dataclass(frozen=True)
class ExplainedSample:
    """A sample and its explanation, as texts and pictures.

    Args:
        index: Its row in the data.
        label: Name of its class.
        prediction: Name of the predicted class.
        probability: Probability of the predicted class.
        is_right: Whether the prediction is right.
        picture: Data URL of the sample with its mask outlined.
        attribution: Data URL of the attribution over the sample.
        in_mask: Fraction of the attribution inside the mask; empty without a mask.
        words: The words of a text, shaded by their attribution; a text has no pictures.
    """

    index: int
    label: str
    prediction: str
    probability: str
    is_right: bool
    picture: str
    attribution: str
    in_mask: str
    words: Sequence[ShownWord] = ()


def draw_samples(columns: Mapping[str, NDArray[Any]], card: Card) -> list[ExplainedSample]:
    """Draw samples and attributions.

    Args:
        columns: Arrays ``x`` ``(N, C, H, W)``, ``y``, ``index``, ``prediction``, ``probability``,
            ``attribution`` and perhaps ``mask``, one row for each sample. Texts have ``tokens``
            ``(N, T)``, and an attribution of each token, a number or a vector.
        card: The card of the data set.
    """
    masks = columns.get("mask")
    samples = []
    for row, index in enumerate(columns["index"].tolist()):
        x, attribution = columns["x"][row], columns["attribution"][row]
        mask = None if masks is None else masks[row]
        is_text = "tokens" in columns
        if is_text and attribution.ndim == 2:
            attribution = np.linalg.norm(attribution, axis=1)
        if not is_text and mask is not None and len(mask) not in (1, len(attribution)):
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
                picture="" if is_text else draw_sample(x, mask, card.valid_range),
                attribution="" if is_text else draw_overlay(x, attribution, mask, card.valid_range),
                in_mask="" if inside is None else percent(inside),
                words=shade_words(columns["tokens"][row].tolist(), attribution, mask)
                if is_text
                else (),
            )
        )
    return samples


def render_explanations(samples: list[ExplainedSample], *, title: str, explained: str) -> str:
    """Render the page as one self-contained HTML text.

    Args:
        samples: Samples to show.
        title: Title with the explainer and the run.
        explained: What was explained, as the end of a sentence.
    """
    return render_template(
        "explanation.html",
        samples=samples,
        title=title,
        explained=explained,
        has_masks=any(sample.in_mask for sample in samples),
    )


def draw_sheet(samples: list[ExplainedSample]) -> bytes:
    """Draw all pairs of sample and attribution on one picture; gives the bytes of a PNG."""
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


def _pixels(url: str) -> NDArray[np.uint8]:
    content = base64.b64decode(url.partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


EXPLAINED: tuple[Literal["prediction", "label"], ...] = ("prediction", "label")
SUFFIXES = (".html", ".png", ".npz")


def explain_run(
    folder: str | Path,
    out: str | Path,
    *,
    explainer: str | Explainer | None = None,
    num_samples: int = 16,
    explained: Literal["prediction", "label"] = "prediction",
    split: Split = "test",
    data_dir: str | None = None,
) -> Path:
    """Explain samples of a finished run, spread over the classes, and write the result.

    Args:
        folder: Folder of the run.
        out: The file to write: a self-contained page (``.html``), a picture (``.png``) or arrays
            (``.npz``: those of `explain_samples`).
        explainer: A name, or an explainer with settings; LRP by name takes the data's valid range.
            None is ``input_gradient``, and ``input_times_gradient`` for texts: a net that reads a
            mean has the same gradient at every word.
        num_samples: Number of samples to explain; all if there are fewer.
        explained: Whether the predicted class is explained, or the label.
        split: The part of the data.
        data_dir: Folder with the data set's files, if it changed since training.

    Returns:
        Path of the file.
    """
    path = Path(out)
    if path.suffix not in SUFFIXES:
        raise InvalidSettingError(
            f"Expected `out` to end in {', '.join(SUFFIXES)}, but got {path.name!r}."
        )
    split = check_choice("split", split, SPLITS)
    if explainer is not None:
        create_explainers(explainer)  # wrong settings raise before the data are read
    run = Run.open(folder, data_dir)
    if explainer is None:
        is_text = run.data.card.text is not None
        explainer = "input_times_gradient" if is_text else "input_gradient"
    part = run.split(split, purpose="explain them")
    ((name, method),) = create_explainers(explainer, run.data.card.valid_range).items()
    columns = explain_samples(
        run.model, part, explainer=method, num_samples=num_samples, explained=explained
    )
    writable_folder(path.parent)
    if path.suffix == ".npz":
        write_atomically(path, lambda file: np.savez_compressed(file, **columns))  # type: ignore[arg-type]
        return path
    is_text = "tokens" in columns
    if columns["x"].ndim != 4 and (not is_text or path.suffix == ".png"):
        other = ".html or .npz" if is_text else ".npz"
        raise InvalidBatchError(
            f"Expected images (N, C, H, W) to draw, but got shape {columns['x'].shape}. Write "
            f"{other} instead."
        )
    samples = draw_samples(columns, part.card)
    if path.suffix == ".png":
        content = draw_sheet(samples)
    else:
        what = "the predicted class" if explained == "prediction" else "the label"
        title = f"{name} of {run.folder.resolve().name}"
        content = render_explanations(samples, title=title, explained=what).encode()
    write_atomically(path, lambda file: file.write(content))
    return path


def explain_samples(
    model: nn.Module,
    data: Dataset,
    *,
    explainer: Explainer,
    num_samples: int = 16,
    explained: Literal["prediction", "label"] = "prediction",
) -> dict[str, NDArray[Any]]:
    """Explain samples and collect their predictions and attributions, one row for each sample.

    Args:
        model: Gives logits ``(N, K)``.
        data: Data to take samples from, spread over the classes.
        explainer: The explainer.
        num_samples: Number of samples to explain.
        explained: Whether the predicted class is explained, or the label.

    Returns:
        ``x``, ``y``, ``index`` (row in the data), ``prediction``, ``probability`` of it,
        ``attribution``, and ``mask`` if the data have masks. Texts also have ``tokens``, their
        words, and an attribution for each token: a gradient's norm over the embedding, the sum of
        any other.
    """
    explained = check_choice("explained", explained, EXPLAINED)
    num_samples = check_integer("num_samples", num_samples)
    rows = spread_over_classes(data.labels, num_samples)
    batch = move_to_model(data.take(rows), model)
    with torch.no_grad():
        logits = Probe.at_test_time(model, batch).logits
    y = logits.softmax(dim=1).max(dim=1).indices if explained == "prediction" else batch.y
    attribution = explainer(model, batch.x, y, inputs=batch.inputs)
    if data.vocabulary is None or batch.x.is_floating_point():
        return sample_columns(batch, rows, logits, attribution)
    is_gradient = isinstance(explainer, InputGradient | SmoothGrad)
    attribution = attribution.norm(dim=2) if is_gradient else attribution.sum(dim=2)
    columns = sample_columns(batch, rows, logits, attribution)
    return {**columns, "tokens": name_tokens(batch, data.vocabulary)}
