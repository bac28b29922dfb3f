"""The audit: search a model and its data for shortcuts, with and without masks."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from rightreasons.audit.cause import check_answers, name_class
from rightreasons.audit.columns import audit_columns, audit_table
from rightreasons.audit.findings import Finding, Thresholds, judge, rank_findings
from rightreasons.audit.images import ImageSearch
from rightreasons.audit.patches import SMALLEST_PATCH, import_sklearn
from rightreasons.audit.reliance import measure_reliance
from rightreasons.audit.samples import TextSamples, read_samples
from rightreasons.audit.statistics import adjust_for_families
from rightreasons.audit.words import WordSearch
from rightreasons.core.checks import check_integer
from rightreasons.core.progress import progress as show_progress
from rightreasons.core.rng import random_stream
from rightreasons.datasets.dataset import Dataset, Splits, as_dataset
from rightreasons.datasets.splitting import stratified_split
from rightreasons.errors import InvalidBatchError

__all__ = ["Audit", "audit"]

LEAST_SAMPLES = 40
STEPS = 12
WHOLE_IMAGE = ("colour", "contrast")
MOST_WRONG = 20
MOST_CAUSE = 300  # planting takes 200 of them; all others help the search

logger = logging.getLogger("rightreasons")


@runtime_checkable
class Trained(Protocol):
    """What has a model and data, such as a `Run`."""

    @property
    def model(self) -> nn.Module:
        """The model."""

    @property
    def data(self) -> Splits:
        """The data."""


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Args:
        findings: What is above a threshold, the most serious first.
        others: What was looked at and is below all thresholds.
        facts: How the audit was made: data, numbers, seed, thresholds, seconds.
        reliance: Reliance on the masked part, if the data have masks and there is a model.
    """

    findings: tuple[Finding, ...]
    others: tuple[Finding, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    reliance: Mapping[str, Any] | None = None

    def save(self, folder: str | Path) -> Path:
        """Write ``audit.json``, the regions of the findings and pictures into a folder."""
        from rightreasons.audit.saving import save_audit

        return save_audit(self, folder)

    @classmethod
    def load(cls, folder: str | Path) -> Audit:
        """Read an audit back; its findings give masks as before, without examples."""
        from rightreasons.audit.saving import load_audit

        return load_audit(folder)


def audit(
    model: nn.Module | Trained | None,
    data: object = None,
    *,
    columns: Mapping[str, Sequence[Any]] | None = None,
    max_samples: int = 2000,
    thresholds: Thresholds | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Audit:
    """Search for shortcuts: what tells the label by itself, where the model looks, what it uses.

    Candidates are planted on up to 300 samples that are not searched, at most half of all, where
    the model is sure and right. Effect sizes decide, see `Thresholds`. If the data have masks,
    the reliance on what they mark is measured too.

    Args:
        model: A model that gives logits, a run with its own data, or None to look at the data
            alone.
        data: Images ``(N, C, H, W)``, numeric columns ``(N, D)`` or texts with a vocabulary: a
            data set, a batch, or splits, of which the training data are audited. None takes the
            data of the run.
        columns: Further columns by name, one value for each sample, such as the hospital; numbers
            or words, None if missing.
        max_samples: Most samples to audit, drawn at random in each class.
        thresholds: What a finding needs to be told.
        seed: Random seed.
        progress: Whether to show a bar if it takes long.

    Raises:
        MissingExtraError: scikit-learn is not installed.
        InvalidBatchError: There are too few samples, they are no images, columns or texts, or the
            model does not give two logits or more.
    """
    started = time.monotonic()
    check_integer("max_samples", max_samples, low=LEAST_SAMPLES)
    import_sklearn()
    if isinstance(model, Trained) and not isinstance(model, nn.Module):
        data = model.data if data is None else data
        model = model.model
    part = data.train if isinstance(data, Splits) else as_dataset(data)
    rows, halves = _draw(part, max_samples, seed)
    limits = thresholds or Thresholds()
    total = STEPS * 100 + len(rows)
    with show_progress("auditing", total=total if progress else None) as advance:

        def step(amount: int) -> None:
            advance(100 * amount)

        first = part.take(rows[:1]).x
        is_text = part.vocabulary is not None and part.card.text is not None and first.ndim == 2
        if not is_text and (not first.is_floating_point() or first.ndim not in (2, 4)):
            raise InvalidBatchError(
                f"Expected images (N, C, H, W) or numeric columns (N, D) to audit, or texts of "
                f"rr.text.dataset, but got {first.dtype} of shape {tuple(first.shape)}."
            )
        if first.ndim == 4 and min(first.shape[2:]) < SMALLEST_PATCH:
            height, width = first.shape[2:]
            raise InvalidBatchError(
                f"Expected images at least {SMALLEST_PATCH} pixels high and wide to audit, but got "
                f"{height}x{width}. Give their pixels as columns, as in x.flatten(1)."
            )
        if model is not None:
            labels = part.labels[rows]
            some = torch.stack([labels.argmin(), labels.argmax()]).cpu()
            check_answers(model, part.take(rows[some]))
        families: list[list[Finding]] = []
        wrong: list[dict[str, Any]] = []
        if is_text:
            texts = TextSamples(part, model, rows, halves, advance)
            families = WordSearch(texts, model, thresholds=limits, seed=seed).families()
            wrong = _sure_and_wrong(texts.answers, texts.y, rows, part.card.classes)
        elif first.ndim == 4:
            samples = read_samples(part, model, rows, halves, advance)
            families = _audit_images(
                ImageSearch(samples, model, thresholds=limits, seed=seed, advance=step), limits
            )
            wrong = _sure_and_wrong(samples.answers, samples.y, rows, part.card.classes)
        else:
            families.append(audit_table(part, model, rows, halves, seed=seed))
        if columns:
            families.append(audit_columns(part, columns, rows[halves[0]], seed=seed))
        reliance = None
        if model is not None and part.has_masks:
            reliance = measure_reliance(model, part, rows, seed=seed)
    judged = [judge(one, limits, has_model=model is not None) for one in _adjust(families)]
    ranked = rank_findings(judged)
    card = part.card
    facts = {
        "data": card.name,
        "classes": list(card.classes),
        "shape": list(card.shape),
        "valid_range": list(card.valid_range),
        "num_samples": len(rows),
        "num_search": len(halves[0]),
        "num_cause": len(halves[1]),
        "has_model": model is not None,
        "seed": seed,
        "thresholds": asdict(limits),
        "seconds": round(time.monotonic() - started, 1),
        "sure_and_wrong": wrong,
    }
    return Audit(
        findings=tuple(one for one in ranked if one.flagged),
        others=tuple(one for one in ranked if not one.flagged),
        facts=facts,
        reliance=reliance,
    )


def _draw(data: Dataset, most: int, seed: int) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Rows to audit, and the places of those to search and of those to plant on among them."""
    labels = data.labels.cpu()
    counts = torch.bincount(labels)
    if len(labels) < LEAST_SAMPLES or int((counts > 1).sum()) < 2:
        raise InvalidBatchError(
            f"Expected at least {LEAST_SAMPLES} samples of two classes to audit, but got "
            f"{len(labels)} of {int((counts > 0).sum())}."
        )
    stream = random_stream(seed, "audit", "draw")
    rows, _ = stratified_split(labels, sizes=[min(most, len(labels))], stream=stream)
    num_cause = min(len(rows) // 2, MOST_CAUSE)
    search, cause = stratified_split(labels[rows], sizes=[len(rows) - num_cause], stream=stream)
    searched = torch.bincount(labels[rows][search], minlength=len(counts))
    rarer = int(searched.argsort(descending=True)[1])
    if searched[rarer] < 2:  # to fit with one and be right about another
        raise InvalidBatchError(
            f"Expected 2 or more of the {len(search)} searched samples in each of two classes, but "
            f"got {int(searched[rarer])} of {data.card.classes[rarer]!r}. Give more samples of it, "
            "or raise max_samples (--max-samples)."
        )
    return rows, (search, cause)


def _audit_images(search: ImageSearch, limits: Thresholds) -> list[list[Finding]]:
    properties = search.properties()
    tells = any(
        one.kind in WHOLE_IMAGE and one.tells_label >= limits.strength / 2 for one in properties
    )
    patches = search.patches(tells)
    properties = search.without_patches(properties, patches)
    return [properties, patches, search.attended(patches)]


def _adjust(families: list[list[Finding]]) -> list[Finding]:
    """Adjust p-values for the number of families; attended patches have none of their own."""
    best = [min((one.p_value for one in family), default=1.0) for family in families]
    factors = adjust_for_families(np.array(best)) / np.maximum(best, 1e-12)
    return [
        replace(one, p_value=min(1.0, one.p_value * float(factor)))
        for family, factor in zip(families, factors, strict=True)
        for one in family
    ]


def _sure_and_wrong(
    answers: Tensor | None, y: Tensor, rows: Tensor, classes: Sequence[str]
) -> list[dict[str, Any]]:
    """The wrong answers that the model is most sure of."""
    if answers is None:
        return []
    confidence, predicted = answers.max(dim=1)
    wrong = (predicted != y).nonzero()[:, 0]
    order = confidence[wrong].argsort(descending=True, stable=True)[:MOST_WRONG]
    return [
        {
            "index": int(rows[place]),
            "label": classes[int(y[place])],
            "predicted": name_class(classes, int(predicted[place])),
            "confidence": float(confidence[place]),
        }
        for place in wrong[order].tolist()
    ]
