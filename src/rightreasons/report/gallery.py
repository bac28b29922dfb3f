"""The gallery: the same test samples with every method's prediction and attribution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightreasons.datasets import Card
from rightreasons.report.picture import (
    ShownWord,
    draw_overlay,
    draw_sample,
    shade_words,
    share_in_mask,
)
from rightreasons.report.record import Record
from rightreasons.report.section import Section
from rightreasons.report.wording import join_names, percent

__all__ = ["Gallery", "Sample", "View", "make_gallery"]

NUMBERS = "fiub"  # numpy's kinds: floats, integers, unsigned, booleans
COLUMNS = ("x", "y", "index", "prediction", "probability", "attribution")
SWAPPED = ("swapped", "swapped_prediction", "changed")

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class View:
    """One method's prediction and attribution of a sample.

    Args:
        label: Name of the method.
        colour: Number of its colour.
        picture: Data URL of the draw_overlay.
        prediction: Name of the predicted class.
        probability: Probability of the predicted class.
        is_right: Whether the prediction is right.
        in_mask: Fraction of the attribution inside the mask; empty without a mask.
        swapped: Name of the class that is predicted after the masked part was exchanged; empty if
            it was not.
        is_swayed: Whether the exchange changed the prediction.
        words: The words of a text, shaded by their attribution; a text has no picture.
    """

    label: str
    colour: int
    picture: str
    prediction: str
    probability: str
    is_right: bool
    in_mask: str
    swapped: str = ""
    is_swayed: bool = False
    words: Sequence[ShownWord] = ()


@dataclass(frozen=True)
class Sample:
    """A test sample.

    Args:
        index: Its row in the test data.
        label: Name of its class.
        picture: Data URL of the sample with its mask outlined.
        views: One for each method.
        swapped: Data URL of the sample after the masked part was exchanged; empty if it was not.
    """

    index: int
    label: str
    picture: str
    views: tuple[View, ...]
    swapped: str = ""


@dataclass(frozen=True)
class Gallery:
    """All samples, with notes for the reader.

    Args:
        samples: Samples to show.
        has_masks: Whether any sample has a mask.
        notes: Why there are none, or which methods are missing.
    """

    samples: tuple[Sample, ...] = ()
    has_masks: bool = False
    notes: tuple[str, ...] = ()

    @property
    def has_swaps(self) -> bool:
        """Whether any sample is shown once more, with the masked part exchanged."""
        return any(sample.swapped for sample in self.samples)


def make_gallery(section: Section, *, most_bytes: int) -> Gallery:
    """Choose runs that kept the same samples, and draw these samples.

    Args:
        section: The section with the methods.
        most_bytes: Once the pictures have so many bytes, no further sample is drawn.
    """
    shape = section.card.shape
    if not any(record.examples for record in section.records):
        return Gallery(notes=("The runs kept no examples, so there are no pictures.",))
    if not any(record.examples and _can_be_shown(record.examples) for record in section.records):
        what = f" (their shape is {' × '.join(map(str, shape))})" if shape else ""
        return Gallery(notes=(f"The inputs are no images{what}, so there are no pictures.",))
    chosen = _same_samples(section)
    missing = [m.label for position, m in enumerate(section.methods) if position not in chosen]
    notes = (f"{join_names(missing)} kept no pictures of these samples.",) if missing else ()
    arrays = {position: record.examples or {} for position, record in chosen.items()}
    first = next(iter(arrays.values()))
    shared = [i for i in first["index"].tolist() if all(i in a["index"] for a in arrays.values())]
    if not shared:
        notes = (*notes, "The runs kept pictures of different samples, so none can be compared.")
    samples: list[Sample] = []
    for index in shared:
        if sum(map(_num_bytes, samples)) >= most_bytes:
            notes = (
                *notes,
                f"Shown are {len(samples)} of {len(shared)} samples, to keep it small.",
            )
            break
        samples.append(_sample(index, arrays, section))
    return Gallery(tuple(samples), _mask(first, 0) is not None, notes)


def _same_samples(section: Section) -> dict[int, Record]:
    """For each method, by its index, a run on the data that most methods have pictures of."""
    runs: list[tuple[int, object, Record]] = [
        (position, record.results.get("data_sha256"), record)
        for position, method in enumerate(section.methods)
        for record in reversed(method.records)  # the last one counts: that of the smallest seed
        if record.examples and _can_be_shown(record.examples)
    ]
    counts = Counter(digest for _, digest in dict.fromkeys((p, d) for p, d, _ in runs))
    first_seed = {digest: record.seed for _, digest, record in reversed(runs)}
    best = min(counts, key=lambda digest: (-counts[digest], first_seed[digest]))
    return {position: record for position, digest, record in runs if digest == best}


def _sample(index: int, arrays: Mapping[int, Arrays], section: Section) -> Sample:
    card, views = section.card, []
    is_text = _are_texts(next(iter(arrays.values())))
    for position, columns in arrays.items():
        method = section.methods[position]
        row = _row(columns, index)
        predicted, probability = int(columns["prediction"][row]), float(columns["probability"][row])
        mask = _mask(columns, row)
        inside = share_in_mask(columns["attribution"][row], mask)
        views.append(
            View(
                label=method.label,
                colour=method.colour,
                picture=""
                if is_text
                else draw_overlay(
                    columns["x"][row], columns["attribution"][row], mask, card.valid_range
                ),
                words=shade_words(
                    columns["tokens"][row].tolist(), columns["attribution"][row], mask
                )
                if is_text
                else (),
                prediction=_class_name(predicted, card),
                probability=percent(probability),
                is_right=predicted == int(columns["y"][row]),
                in_mask="" if inside is None else percent(inside),
                **_after_swap(columns, row, card),
            )
        )
    columns = next(iter(arrays.values()))
    row = _row(columns, index)
    picture = swapped = ""
    if not is_text:
        picture = draw_sample(columns["x"][row], _mask(columns, row), card.valid_range)
    if _is_swapped(columns, row):
        swapped = draw_sample(columns["swapped"][row], None, card.valid_range)
    label = _class_name(int(columns["y"][row]), card)
    return Sample(index, label, picture, tuple(views), swapped)


def _after_swap(columns: Arrays, row: int, card: Card) -> dict[str, Any]:
    if not _is_swapped(columns, row):
        return {}
    after = int(columns["swapped_prediction"][row])
    is_swayed = after != int(columns["prediction"][row])
    return {"swapped": _class_name(after, card), "is_swayed": is_swayed}


def _is_swapped(columns: Arrays, row: int) -> bool:
    """Whether the sample was kept once more, with the masked part exchanged."""
    if not all(name in columns and columns[name].dtype.kind in NUMBERS for name in SWAPPED):
        return False
    x = columns["x"]
    fits = columns["swapped"].shape == x.shape and all(
        columns[name].shape == (len(x),) for name in SWAPPED[1:]
    )
    return fits and bool(columns["changed"][row])


def _row(columns: Arrays, index: int) -> int:
    return int(np.flatnonzero(columns["index"] == index)[0])


def _mask(columns: Arrays, row: int) -> NDArray[np.floating] | None:
    """The sample's mask, if there is one that fits."""
    masks = columns.get("mask")
    if masks is None or masks.dtype.kind not in NUMBERS or len(masks) != len(columns["x"]):
        return None
    mask = masks[row]
    try:
        np.broadcast_to(mask, columns["x"][row].shape)
    except ValueError:
        return None
    return np.asarray(np.nan_to_num(mask.astype(np.float64)))


def _can_be_shown(columns: Arrays) -> bool:
    return _are_images(columns) or _are_texts(columns)


def _are_texts(columns: Arrays) -> bool:
    """Whether the samples are texts that were kept with their words."""
    tokens = columns.get("tokens")
    if tokens is None or tokens.dtype.kind != "U" or tokens.ndim != 2 or not tokens.size:
        return False
    if any(name not in columns or columns[name].dtype.kind not in NUMBERS for name in COLUMNS):
        return False
    rows = {len(columns[name]) if columns[name].ndim else -1 for name in COLUMNS}
    return rows == {len(tokens)} and columns["attribution"].shape == tokens.shape


def _are_images(columns: Arrays) -> bool:
    if any(name not in columns or columns[name].dtype.kind not in NUMBERS for name in COLUMNS):
        return False
    x = columns["x"]
    rows = {len(columns[name]) if columns[name].ndim else -1 for name in COLUMNS}
    return (
        x.ndim == 4 and x.size > 0 and columns["attribution"].shape == x.shape and rows == {len(x)}
    )


def _class_name(number: int, card: Card) -> str:
    return card.classes[number] if 0 <= number < len(card.classes) else str(number)


def _num_bytes(sample: Sample) -> int:
    return (
        len(sample.picture) + len(sample.swapped) + sum(len(view.picture) for view in sample.views)
    )
