"""Curves: training by epoch, and errors by the share of samples that a model answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from rightreasons.report.chart import Line, line_chart
from rightreasons.report.section import Method, Section

__all__ = ["Curve", "make_curves", "make_risks"]

TITLES = {"error": "Errors over all answers", "worst_group": "Errors in the worst group"}


@dataclass(frozen=True)
class Curve:
    """One quantity over the epochs, or over coverage.

    Args:
        title: Title of the chart.
        chart: The chart as SVG.
    """

    title: str
    chart: Markup


def make_curves(section: Section) -> list[Curve]:
    """Make a chart for each accuracy and for each part of the loss."""
    lines: dict[str, list[Line]] = {}
    for method in section.methods:
        for record in method.records:
            label = method.label
            if len(method.records) > 1:
                label += f", seed {record.seed}"
            for title, values in _quantities(record.history).items():
                lines.setdefault(title, []).append(Line(label, method.colour, tuple(values)))
    ordered = sorted(lines, key=lambda title: not _is_share(title))  # accuracies first
    return [
        Curve(title, line_chart(title, lines[title], is_share=_is_share(title)))
        for title in ordered
    ]


def _quantities(history: tuple[Mapping[str, Any], ...]) -> dict[str, list[tuple[float, float]]]:
    curves: dict[str, list[tuple[float, float]]] = {}
    for row in history:
        named = {"Training accuracy": row.get("accuracy")}
        for group, title in (("validation", "Validation {}"), ("parts", "Loss part {}")):
            values = row.get(group)
            for name, value in values.items() if isinstance(values, dict) else ():
                named[title.format(_words(name) if group == "validation" else name)] = value
        for title, value in named.items():
            if isinstance(value, (int, float)) and math.isfinite(value):
                curves.setdefault(title, []).append((float(row["epoch"]), float(value)))
    return curves


def _words(key: str) -> str:
    return key.replace("_", " ").replace("/", ", ")


def _is_share(title: str) -> bool:
    return title.startswith(("Training", "Validation"))


def make_risks(section: Section) -> list[Curve]:
    """Make a chart for each kind of error that any method has."""
    risks = []
    for kind, title in TITLES.items():
        lines = [
            Line(method.label, method.colour, points)
            for method in section.methods
            if len(points := _points(method, kind)) > 1
        ]
        if lines:
            chart = line_chart(title, lines, is_share=True, axis="answered {} %")
            risks.append(Curve(title, chart))
    return risks


def _points(method: Method, kind: str) -> tuple[tuple[float, float], ...]:
    """Coverage in per cent and error, in order."""
    start = f"risk_coverage/{kind}/"
    keys = {key for record in method.records for key in record.metrics() if key.startswith(start)}
    found = []
    for key in keys:
        estimate = method.estimate(key)
        if estimate is not None:
            found.append((float(key.removeprefix(start)), estimate.value))
    return tuple(sorted(found))
