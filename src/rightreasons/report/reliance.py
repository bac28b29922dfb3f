"""Signs of a shortcut in one method, and how many probes looked for them."""

from __future__ import annotations

from dataclasses import dataclass

from rightreasons.report.estimate import Estimate, clearly_above
from rightreasons.report.section import Method
from rightreasons.report.wording import percent, points

__all__ = ["Reliance", "find_reliance"]

LARGE_GAP = 0.15
LARGE_RATIO = 1.5
LARGE_DROP = 0.05
FEW_CHANGED = 0.1
PARTS = ("validation", "test")
DOUBTS = {
    "polarity": "its masks look inverted",
    "gap_elsewhere": "a group or class is far behind, which masked parts do not explain",
    "shrunken_logits": "its penalty was met by shrinking the logits",
}


@dataclass(frozen=True)
class Reliance:
    """Signs of a shortcut in one method.

    Args:
        mass: Fraction of the input gradient inside the mask.
        area: Fraction of the input that the mask covers.
        before: Accuracy before masked features were exchanged.
        after: Accuracy afterwards.
        swapped_on: Part of the data of ``before`` and ``after``. Validation data if possible:
            they have the shortcut whenever the training data have it.
        signs: Phrases, one for each sign.
        doubts: Phrases for what the diagnosis found and no probe can settle.
        probes: Names of what was measured that could have shown a shortcut.
        disagreement: Sentence if the gradient and the swap contradict each other; else empty.
        gap: By how much the worst group is below the average, if clearly and by much; else 0.
    """

    mass: float | None
    area: float | None
    before: float | None
    after: float | None
    swapped_on: str
    signs: tuple[str, ...]
    doubts: tuple[str, ...]
    probes: tuple[str, ...]
    disagreement: str
    gap: float

    @property
    def is_known(self) -> bool:
        """Whether anything was measured that could be a sign."""
        return bool(self.probes or self.signs)

    @property
    def is_clean(self) -> bool:
        """Whether two probes looked and nothing speaks of a shortcut."""
        return len(self.probes) > 1 and not self.signs and not self.doubts and not self.gap


@dataclass(frozen=True)
class _Swap:
    part: str
    before: float
    after: float


def find_reliance(method: Method) -> Reliance:
    """Look for signs of a shortcut.

    One sign is an input gradient that is denser inside the mask than outside: half as much again
    as the mask's fraction of the input. Another is an accuracy that drops by 5 points when masked
    features are exchanged, here or in the diagnosis of the training. If neither is known, a worst
    group clearly, and by 15 points, below the average is a sign. Beside the others it is a gap:
    the group may be hard, or the shortcut lies elsewhere.
    """
    mass, area = method.estimate("input_gradient_mass"), method.estimate("input_gradient_mass/area")
    average = method.estimate("group_accuracy/average")
    worst = method.estimate("group_accuracy/worst")
    swap, gap, signs = _swap(method), _clear_gap(average, worst), []
    ratio = mass.value / area.value if mass and area and area.value > 0 else None
    is_dense = ratio is not None and ratio > LARGE_RATIO
    if is_dense:
        signs.append(f"{ratio:.1f} times the mask's share of the input gradient")
    is_lost = swap is not None and swap.before - swap.after >= LARGE_DROP
    if swap is not None and is_lost:
        signs.append(f"{points(swap.before - swap.after)} lost when the masked part is exchanged")
    found = {name for record in method.records for name in record.findings}
    if "reads_mask" in found and not is_lost:
        signs.append("points lost in the diagnosis of its training when masked parts are swapped")
    if gap and swap is None and ratio is None:
        signs.append(f"a worst group {points(gap)} below the average")
    probes = {"exchanged masked parts": swap, "input gradients": ratio is not None, "groups": worst}
    return Reliance(
        mass=mass.value if mass else None,
        area=area.value if area else None,
        before=swap.before if swap else None,
        after=swap.after if swap else None,
        swapped_on=swap.part if swap else "",
        signs=tuple(signs),
        doubts=tuple(text for name, text in DOUBTS.items() if name in found),
        probes=tuple(name for name, known in probes.items() if known),
        disagreement=_disagreement(method.label, swap, is_dense=is_dense, mass=mass, area=area),
        gap=gap,
    )


def _swap(method: Method) -> _Swap | None:
    """What the swap did, on the first part of the data where it changed samples at all."""
    for part in PARTS:
        changed = method.estimate("swap_accuracy/changed", part)
        before = method.estimate("accuracy", part)
        after = method.estimate("swap_accuracy", part)
        cost = method.estimate("swap_accuracy/cost", part)
        is_clear = cost is not None and (cost.low or 0.0) > 0 and cost.value >= LARGE_DROP
        if changed is not None and changed.value < FEW_CHANGED and not is_clear:
            continue
        # Samples that the swap did not change would hide the loss of those that it did.
        first = method.estimate("swap_accuracy/before", part)
        if cost is not None and first is not None:
            return _Swap(part, first.value, first.value - cost.value)
        if before is not None and after is not None:
            return _Swap(part, before.value, after.value)
    return None


def _disagreement(
    label: str, swap: _Swap | None, *, is_dense: bool, mass: Estimate | None, area: Estimate | None
) -> str:
    if swap is None or mass is None or area is None or not area.value:
        return ""
    lost = swap.before - swap.after
    inside = f"{percent(mass.value)} of the input gradient lies in a mask of {percent(area.value)}"
    if lost >= LARGE_DROP and not is_dense:
        return (
            f"Maps and swap disagree on {label}: only {inside}, yet exchanging that part costs "
            f"{points(lost)}. Believe the swap: a gradient shows what a small change does."
        )
    if is_dense and lost < LARGE_DROP / 2:
        return (
            f"Maps and swap disagree on {label}: {inside}, yet exchanging that part costs "
            f"{points(max(lost, 0.0))}. The model reacts to it, and the exchange may be too mild."
        )
    return ""


def _clear_gap(average: Estimate | None, worst: Estimate | None) -> float:
    if average is None or worst is None or not clearly_above(average, worst):
        return 0.0
    gap = average.value - worst.value
    return gap if gap >= LARGE_GAP else 0.0
