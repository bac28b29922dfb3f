"""How far a method leans on what the mask covers, from three sides."""

from __future__ import annotations

from dataclasses import dataclass

from rightreasons.report.estimate import Estimate, clearly_above
from rightreasons.report.section import Method
from rightreasons.report.wording import points

__all__ = ["Reliance", "reliance_of"]

LARGE_GAP = 0.15
LARGE_RATIO = 1.5
LARGE_DROP = 0.05
PARTS = ("validation", "test")


@dataclass(frozen=True)
class Reliance:
    """What points to a shortcut.

    Args:
        mass: Share of the input gradient inside the mask.
        area: Share of the input the mask covers.
        before: Accuracy on the samples as they are.
        after: Accuracy after what the mask covers was exchanged.
        swapped_on: Part of the data that ``before`` and ``after`` are of. Validation data if
            possible: they carry the shortcut wherever the training data do, so they show it best.
        signs: Each a phrase; empty if there are none.
        gap: By how much the worst group is below the average, if clearly and by much; else 0.
        is_known: Whether anything was measured that could be a sign.
    """

    mass: float | None
    area: float | None
    before: float | None
    after: float | None
    swapped_on: str
    signs: tuple[str, ...]
    gap: float
    is_known: bool


def reliance_of(method: Method) -> Reliance:
    """Look for signs of a shortcut.

    A sign is an input gradient denser inside the mask than outside (half as much again as its
    share of the input), an accuracy that drops by 5 points when what the mask covers is exchanged,
    or, if neither is known, a worst group that is clearly, and by 15 points, below the average. A
    group can also be bad because it is hard, so that is no sign where the mask itself was tested.
    """
    mass, area = method.estimate("input_gradient_mass"), method.estimate("input_gradient_mass/area")
    average = method.estimate("group_accuracy/average")
    worst = method.estimate("group_accuracy/worst")
    before = after = None
    part = ""
    for part in PARTS:
        before, after = method.estimate("accuracy", part), method.estimate("swap_accuracy", part)
        if before is not None and after is not None:
            break
    signs = []
    if mass is not None and area is not None and mass.value > LARGE_RATIO * area.value > 0:
        signs.append(f"{mass.value / area.value:.1f} times the mask's share of the input gradient")
    if before is not None and after is not None and before.value - after.value >= LARGE_DROP:
        signs.append(f"{points(before.value - after.value)} lost when the masked part is exchanged")
    swapped = before is not None and after is not None
    tested = swapped or (mass is not None and area is not None)
    gap = _clear_gap(average, worst)
    if gap and not tested:
        signs.append(f"a worst group {points(gap)} below the average")
    return Reliance(
        mass=mass.value if mass else None,
        area=area.value if area else None,
        before=before.value if before and swapped else None,
        after=after.value if after and swapped else None,
        swapped_on=part if swapped else "",
        signs=tuple(signs),
        gap=gap,
        is_known=tested or worst is not None,
    )


def _clear_gap(average: Estimate | None, worst: Estimate | None) -> float:
    if average is None or worst is None or not clearly_above(average, worst):
        return 0.0
    gap = average.value - worst.value
    return gap if gap >= LARGE_GAP else 0.0
