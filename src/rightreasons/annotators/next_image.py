"""Suggestions of images to annotate next, and a table of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rightreasons.annotators.annotator import PseudoAnnotator
from rightreasons.annotators.hand_masks import CHUNK, find_annotated
from rightreasons.annotators.mask_files import file_names
from rightreasons.core.checks import check_integer
from rightreasons.core.files import writable_folder, write_atomically
from rightreasons.core.progress import progress
from rightreasons.datasets import Dataset
from rightreasons.errors import InvalidSettingError

__all__ = [
    "Suggestion",
    "find_unannotated",
    "next_to_annotate",
    "spread_order",
    "suggestion_rows",
    "write_rows",
]


class Suggestion(NamedTuple):
    """An image to annotate: its index in the data, and the uncertainty of its mask in bits."""

    place: int
    uncertainty: float


def spread_order(uncertainty: Tensor, features: Tensor, *, num: int) -> list[int]:
    r"""Order samples: the most uncertain first, then each time the one with the highest score.

    .. math:: \arg\max_n \; u_n \min_{s \in \text{chosen}} \lVert f_n - f_s \rVert_2

    So an uncertain image comes late if it resembles a chosen one. A larger ``num`` only adds
    samples at the end.

    Args:
        uncertainty: Uncertainty of each sample, ``(N,)``.
        features: Features of each sample, ``(N, F)``.
        num: How many to choose; all if there are fewer.

    Example:
        >>> features = torch.tensor([[0.0], [0.0], [1.0]])
        >>> spread_order(torch.tensor([0.9, 0.8, 0.1]), features, num=2)
        [0, 2]
    """
    chosen = list[int]()
    score, nearest = uncertainty.double().clone(), torch.full((len(uncertainty),), torch.inf)
    left = torch.ones(len(uncertainty), dtype=torch.bool)
    while len(chosen) < min(num, len(uncertainty)):
        best = int(torch.where(left, score, -1.0).argmax())
        chosen.append(best)
        left[best] = False
        distance = (features - features[best]).norm(dim=1)
        nearest = torch.minimum(nearest, distance)
        score = uncertainty.double() * nearest
    return chosen


def find_unannotated(data: Dataset) -> Tensor:
    """Find the indices of images that nobody annotated, ``(n,)``; raises if there are none."""
    indices = (~find_annotated(data)).nonzero().flatten()
    if not len(indices):
        raise InvalidSettingError(
            f"Expected images that nobody annotated, but all {len(data)} of {data.card.name!r} "
            "are annotated: there is nothing left to do."
        )
    return indices


def next_to_annotate(
    data: Dataset, annotator: PseudoAnnotator, *, num: int = 20
) -> list[Suggestion]:
    """Suggest which images to annotate next, in the order of `spread_order`.

    Images are compared by features of the annotator's generator. Annotated images are left out.

    Args:
        data: Images, of which some have masks.
        annotator: A fitted annotator.
        num: How many images to suggest at most.

    Example:
        >>> from rightreasons.datasets import decoy_digits, mask_fraction
        >>> few = mask_fraction(decoy_digits(), fraction=0.02).train
        >>> annotator = PseudoAnnotator(width=4, depth=1, num_updates=3)
        >>> len(next_to_annotate(few, annotator.fit(few, progress=False), num=5))
        5
    """
    check_integer("num", num)
    indices = find_unannotated(data)
    parts, features = [], []
    with progress("looking for uncertain images", total=len(indices)) as advance:
        for batch in data.batches(torch.split(indices, CHUNK)):
            parts.append(annotator.uncertainty(batch.x))
            features.append(annotator.features(batch.x))
            advance(len(batch))
    uncertainty = torch.cat(parts)
    order = spread_order(uncertainty, torch.cat(features), num=num)
    return [Suggestion(int(indices[row]), float(uncertainty[row])) for row in order]


def suggestion_rows(data: Dataset, suggestions: Sequence[Suggestion]) -> list[dict[str, Any]]:
    """One row for each image to annotate: its index, its file if it has one, its uncertainty."""
    files = file_names(data)
    return [
        {"index": index, "file": "" if files is None else files[index], "uncertainty": uncertainty}
        for index, uncertainty in suggestions
    ]


def write_rows(path: str | Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows of the same keys as CSV, with a header."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    target = Path(path)
    writable_folder(target.parent)
    write_atomically(target, lambda file: file.write(text.getvalue().encode()))
