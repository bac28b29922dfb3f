"""A finding: what may be a shortcut, how strong it is, where it lies, and the verdict on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from rightreasons.audit.cause import Effect, Example
from rightreasons.audit.regions import Region
from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidSettingError

if TYPE_CHECKING:
    from rightreasons.audit.samples import Marked
    from rightreasons.audit.text_planting import TextExample

__all__ = [
    "LITTLE_USED",
    "LOOKED_AT",
    "NOT_PLANTED",
    "NO_MODEL",
    "USED",
    "Finding",
    "Thresholds",
    "judge",
    "rank_findings",
]

USED = "the model uses it"
LITTLE_USED = "in the data, little used"
LOOKED_AT = "looked at, not decisive"
NO_MODEL = "in the data; no model was asked"
NOT_PLANTED = "in the data; it cannot be planted"
ORDER = (USED, NO_MODEL, NOT_PLANTED, LITTLE_USED, LOOKED_AT)
MOST_AREA = 0.05
OF_ANY_AREA = frozenset(
    ["colour", "contrast", "detail", "column", "length", "punctuation"]
    + ["word", "word pair", "attended word"]
)
CHUNK = 200


@dataclass(frozen=True)
class Thresholds:
    """What a finding needs to be told; settled on the development sets of the detection table.

    Args:
        strength: Least strength with which something tells the label by itself.
        effect: Least lower bound of the planted effect.
        false_discoveries: Largest share of false discoveries among what tells the label.
    """

    strength: float = 0.7
    effect: float = 0.5
    false_discoveries: float = 0.05


@dataclass(frozen=True)
class Finding:
    """Something that tells the label, or that the model looks at.

    Args:
        name: A few words.
        kind: ``"patch"``, ``"attended patch"``, ``"colour"``, ``"contrast"``, ``"detail"``,
            ``"border"``, ``"column"``, ``"metadata"``, ``"word"``, ``"word pair"``,
            ``"attended word"``, ``"length"``, ``"punctuation"`` or ``"capitals"``.
        tells_label: How well it tells the label by itself, from 0 to 1; NaN if not measured.
        p_value: Adjusted p-value of ``tells_label``.
        effect: Planted effect; None if it cannot be planted, or without a model.
        removal: Effect of its removal beyond that of a random region.
        prevalence: Share of the samples that have it.
        classes: Names of the classes that it tells.
        area: Share of the input that it covers.
        verdict: What is said of it; set by `judge`.
        flagged: Whether it is above a threshold.
        details: Further numbers by name.
        region: Where it lies; None for a property of the whole input.
        examples: Samples before and after planting.
        pictures: Samples that show it, ``(C, H, W)``, or texts as marked words.
    """

    name: str
    kind: str
    tells_label: float = math.nan
    p_value: float = 1.0
    effect: Effect | None = None
    removal: Effect | None = None
    prevalence: float = 1.0
    classes: tuple[str, ...] = ()
    area: float = 1.0
    verdict: str = ""
    flagged: bool = False
    details: dict[str, Any] = field(default_factory=dict)
    region: Region | None = None
    examples: Sequence[Example | TextExample] = ()
    pictures: Sequence[Tensor | Marked] = ()

    @property
    def decisive(self) -> Effect | None:
        """The planted effect that counts.

        What changes whole images may work in one direction alone: detail that JPEG removed cannot
        be given back. There the class with the largest lower bound counts.
        """
        if self.effect is None or self.region is not None or not self.effect.by_class:
            return self.effect
        return max([self.effect, *self.effect.by_class.values()], key=lambda one: one.low)

    @property
    def strength(self) -> float:
        """The planted effect; without one, how well it tells the label."""
        return self.tells_label if self.decisive is None else self.decisive.value

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the planted effect; None without one."""
        return None if self.decisive is None else (self.decisive.low, self.decisive.high)

    @property
    def advice(self) -> str:
        """What to do about it."""
        return {
            "patch": "Accept it to get masks, then train with them.",
            "attended patch": "Look at the pictures; if it must not matter, accept it.",
            "colour": "It has no region: give all classes the same colours, or vary them.",
            "contrast": "It has no region: give all classes the same contrast.",
            "detail": "It has no region: encode and resize the images of all classes alike.",
            "border": "Accept it to get masks of the border, or cut the border off.",
            "column": "Leave the column out, or accept it to get masks of it.",
            "word": "Accept it to get masks of the words, then train with them.",
            "word pair": "Accept it to get masks of the words, then train with them.",
            "attended word": "Read the texts; if the word must not matter, accept it.",
            "length": "It has no place: give all classes texts of the same length, or cut them.",
            "punctuation": "It has no place: write the marks of all classes alike.",
            "capitals": "It has no place: write all texts in small letters.",
            "metadata": "The model does not see it; find out how it came to tell the label.",
        }[self.kind]

    def masks(self, data: Dataset, *, advance: Callable[[int], None] | None = None) -> Tensor:
        """Soft masks of all samples, 1 where it is: ``(N, 1, H, W)``, ``(N, D)`` or ``(N, T)``.

        Args:
            data: The samples; the finding may have come from others.
            advance: Function that is told the number of finished samples.
        """
        if self.region is None:
            raise InvalidSettingError(
                f"Expected a finding with a region, but {self.name!r} is a property of the whole "
                f"input. {self.advice}"
            )
        parts = []
        for rows in torch.split(torch.arange(len(data)), CHUNK):
            parts.append(self.region.locate(data.take(rows).x))
            if advance is not None:
                advance(len(rows))
        if self.region.kind == "words":  # parts are as long as their longest text
            widest = max([*data.card.shape, *(part.shape[1] for part in parts)])
            parts = [functional.pad(part, (0, widest - part.shape[1])) for part in parts]
        return torch.cat(parts)


def judge(finding: Finding, thresholds: Thresholds, *, has_model: bool) -> Finding:
    """Give the verdict: effect sizes decide, and a p-value only guards against chance."""
    effect = finding.decisive
    small = finding.area <= MOST_AREA or finding.kind in OF_ANY_AREA
    tells = (
        finding.tells_label >= thresholds.strength
        and finding.p_value <= thresholds.false_discoveries
    )
    if effect is not None and effect.low >= thresholds.effect and small:
        return replace(finding, verdict=USED, flagged=True)
    if not tells:
        return replace(finding, verdict=LOOKED_AT, flagged=False)
    if not has_model:
        return replace(finding, verdict=NO_MODEL, flagged=True)
    verdict = NOT_PLANTED if effect is None else LITTLE_USED
    return replace(finding, verdict=verdict, flagged=True)


def rank_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings: by verdict, then by strength."""

    def key(finding: Finding) -> tuple[int, float]:
        strength = 0.0 if math.isnan(finding.strength) else finding.strength
        return ORDER.index(finding.verdict), -strength

    return sorted(findings, key=key)
