"""The bars: how often each method is right in each group."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from rightreasons.report.chart import Bar, bar_chart
from rightreasons.report.section import Section

__all__ = ["Group", "groups_of"]

MOST_GROUPS = 24


@dataclass(frozen=True)
class Group:
    """One group's bars.

    Args:
        name: Of the group.
        size: How many test samples it has; with several seeds, the mean.
        chart: As SVG.
        lowest: Accuracy of the method that fares worst in it.
    """

    name: str
    size: int
    chart: Markup
    lowest: float


def groups_of(section: Section, *, most: int = MOST_GROUPS) -> tuple[list[Group], int]:
    """The groups in their order and how many there are; of too many, the hardest."""
    names = dict.fromkeys(name for method in section.methods for name in method.group_names)
    groups = [group for name in names if (group := _group(name, section)) is not None]
    hardest = sorted(groups, key=lambda group: group.lowest)[:most]
    return [group for group in groups if group in hardest], len(groups)


def _group(name: str, section: Section) -> Group | None:
    bars, sizes = [], [0.0]
    for method in section.methods:
        estimate = method.estimate(f"group_accuracy/{name}")
        size = method.estimate(f"group_accuracy/{name}/n")
        if estimate is not None and size is not None:
            bars.append(Bar(method.label, method.colour, estimate))
            sizes.append(size.value)
    if not bars:
        return None
    lowest = min(bar.estimate.value for bar in bars)
    return Group(name, round(max(sizes)), bar_chart(f"Accuracy in {name}", bars), lowest)
