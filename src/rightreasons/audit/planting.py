"""Planting: what patterns and properties do to the predictions of a model."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from rightreasons.audit.cause import (
    Effect,
    Example,
    name_class,
    plant_effect,
    removal_effect,
    swap_effect,
)
from rightreasons.audit.findings import Finding
from rightreasons.audit.patterns import Match, Pattern, match_patterns
from rightreasons.audit.properties import transplant_property
from rightreasons.audit.regions import Region, fit_mask
from rightreasons.audit.samples import Samples
from rightreasons.types import Batch

__all__ = ["Planting"]


class Planting:
    """Plants candidates on audited images that were not searched.

    Args:
        samples: The audited images.
        model: The model; None plants nothing.
        seed: Random seed for the donors.
        advance: Function that is told each finished step.
    """

    def __init__(
        self,
        samples: Samples,
        model: nn.Module | None,
        *,
        seed: int,
        advance: Callable[[int], None],
    ) -> None:
        self.samples, self.model = samples, model
        self.seed, self.advance = seed, advance
        self.card = samples.data.card

    def describe(self, small: Tensor, patterns: list[Pattern], kind: str) -> Finding:
        """Plant patterns, remove them, and describe them as a finding."""
        samples = self.samples
        if not patterns:
            return Finding(name="a small patch", kind=kind, classes=())
        match = match_patterns(patterns, small)
        labels = torch.tensor([one.label for one in patterns])
        present = match.pattern >= 0
        names = sorted({one.label for one in patterns})
        effect, removal, examples = self._plant(match, labels)
        area = max(one.area(small) for one in patterns)
        return Finding(
            name=_name_place(match, small),
            kind=kind,
            effect=effect,
            removal=removal,
            prevalence=float(present.double().mean()),
            classes=tuple(name_class(self.card.classes, label) for label in names),
            area=area,
            region=Region("patterns", tuple(patterns)),
            examples=examples,
            pictures=[
                samples.take(samples.search[one.medoid : one.medoid + 1])[0] for one in patterns
            ][:6],
        )

    def _plant(
        self, match: Match, labels: Tensor
    ) -> tuple[Effect | None, Effect | None, list[Example]]:
        samples = self.samples
        if self.model is None or samples.answers is None:
            return None, None, []

        def locate(places: Tensor) -> Tensor:
            return fit_mask(match.mask[places], samples.take(places[:1]))

        has = match.pattern >= 0
        tells = has & (labels[match.pattern.clamp(min=0)] == samples.y)
        donors = samples.search[tells[samples.search]]
        recipients = samples.recipients()
        effect, examples = (
            plant_effect(
                self.model,
                self._batch,
                locate,
                recipients=recipients,
                donors=donors,
                labels=samples.y,
                seed=self.seed,
                advance=lambda amount: None,
            )
            if len(donors)
            else (None, [])
        )
        removal = removal_effect(
            self.model,
            self._batch,
            locate,
            rows=recipients[has[recipients]],
            seed=self.seed,
            advance=lambda amount: None,
        )
        self.advance(1)
        return effect, removal, examples

    def transplant(self, kind: str) -> tuple[Effect | None, list[Example]]:
        """Give images a property of others; see `transplant_property`."""
        samples = self.samples
        if self.model is None:
            return None, []

        def alter(x: Tensor, places: Tensor, donors: Tensor) -> Tensor:
            del places
            return transplant_property(kind, x, samples.take(donors), self.card.valid_range)

        effect = swap_effect(
            self.model,
            self._batch,
            alter,
            recipients=samples.recipients(),
            donors=samples.search,
            labels=samples.y,
            seed=self.seed,
            advance=lambda amount: None,
        )
        self.advance(1)
        return effect

    def _batch(self, places: Tensor) -> Batch:
        return self.samples.data.take(self.samples.rows[places])


def _name_place(match: Match, small: Tensor) -> str:
    """Words for where a patch lies."""
    masks = match.mask[match.pattern >= 0][:, 0]
    if not len(masks):
        return "a small patch"
    weight = masks.sum(dim=(1, 2)).clamp(min=1e-6)
    height, width = small.shape[2:]
    rows = (masks.sum(dim=2) * torch.arange(height)).sum(dim=1) / weight / max(1, height - 1)
    columns = (masks.sum(dim=1) * torch.arange(width)).sum(dim=1) / weight / max(1, width - 1)
    if float(rows.std(unbiased=False)) + float(columns.std(unbiased=False)) > 0.2:
        return "a small patch, at several places"
    down = ("top", "middle", "bottom")[min(2, int(3 * float(rows.median())))]
    right = ("left", "centre", "right")[min(2, int(3 * float(columns.median())))]
    return f"a small patch, {down} {right}"
