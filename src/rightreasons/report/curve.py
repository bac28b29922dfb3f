"""The training curves: every quantity of the log, a line for each run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from rightreasons.report.chart import Line, line_chart
from rightreasons.report.section import Section

__all__ = ["Curve", "curves_of"]


@dataclass(frozen=True)
class Curve:
    """One quantity over the epochs.

    Args:
        title: Of the chart.
        chart: As SVG.
    """

    title: str
    chart: Markup


def curves_of(section: Section) -> list[Curve]:
    """A chart for each accuracy and for each part of the loss."""
    lines: dict[str, list[Line]] = {}
    for method in section.methods:
        for record in method.records:
            label = method.label
            if len(method.records) > 1:
                label += f", seed {record.seed}"
            for title, points in _quantities(record.history).items():
                lines.setdefault(title, []).append(Line(label, method.colour, tuple(points)))
    ordered = sorted(lines, key=lambda title: not _is_share(title))  # accuracies first
    return [
        Curve(title, line_chart(title, lines[title], is_share=_is_share(title)))
        for title in ordered
    ]


def _quantities(history: tuple[Mapping[str, Any], ...]) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for row in history:
        named = {"Training accuracy": row.get("accuracy")}
        for group, title in (("validation", "Validation {}"), ("parts", "Loss part {}")):
            values = row.get(group)
            for name, value in values.items() if isinstance(values, dict) else ():
                named[title.format(_words(name) if group == "validation" else name)] = value
        for title, value in named.items():
            if isinstance(value, (int, float)) and math.isfinite(value):
                found.setdefault(title, []).append((float(row["epoch"]), float(value)))
    return found


def _words(key: str) -> str:
    return key.replace("_", " ").replace("/", ", ")


def _is_share(title: str) -> bool:
    return title.startswith(("Training", "Validation"))
