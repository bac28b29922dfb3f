"""Explained samples as one page, and as one picture."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import NDArray
from PIL import Image

from rightreasons.datasets import Card
from rightreasons.report.picture import overlay, portrait, share_in_mask
from rightreasons.report.wording import percent

__all__ = ["ExplainedSample", "explained_samples", "explanation_page", "explanation_sheet"]

GAP = 8
PAIRS_A_ROW = 4


@dataclass(frozen=True)
class ExplainedSample:
    """A sample and its explanation, ready to be shown.

    Args:
        index: Its row in the data.
        label: Name of its class.
        prediction: Name of the predicted class.
        probability: Of it.
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
        card: Of the data.
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
