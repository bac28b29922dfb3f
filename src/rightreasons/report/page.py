"""The report: one self-contained page, from saved results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup

from rightreasons.certification import Certificate
from rightreasons.core.files import writable_folder, write_atomically
from rightreasons.errors import OutputError
from rightreasons.report.chart import Bar, Line, bar_chart, line_chart
from rightreasons.report.column import make_columns
from rightreasons.report.gallery import make_gallery
from rightreasons.report.record import read_records
from rightreasons.report.reliance import find_reliance
from rightreasons.report.section import Method, Section, group_records
from rightreasons.report.summary import data_facts, method_facts, recipe_meaning, run_rows
from rightreasons.report.verdict import judge_section
from rightreasons.report.wording import percent, points, render_template

__all__ = [
    "Curve",
    "Entry",
    "Group",
    "Proof",
    "Tile",
    "judge_runs",
    "make_curves",
    "make_groups",
    "make_proofs",
    "make_tiles",
    "render_page",
    "write_report",
]

MOST_GROUPS = 24
PICTURE_BYTES = 300_000  # for each method
EXIT_CODES = {"good": 0, "mixed": 3, "unclear": 3, "bad": 4}
"""Exit codes of ``report --check``, the best verdict first; 1 and 2 are errors."""


def write_report(runs: Sequence[str | Path], out: str | Path) -> Path:
    """Write one self-contained HTML page about finished runs.

    Runs that differ in their seed alone are one method. Methods on the same data are compared in
    one section. Only saved results are read, never a model or data.

    Args:
        runs: Folders of finished runs.
        out: The HTML file; missing folders are created.

    Returns:
        Path of the page.

    Raises:
        InvalidSettingError: There are no runs.
        RunNotFoundError: Folders hold no finished run; the message names all of them.
        OutputError: The file cannot be written.
    """
    sections = group_records(read_records(runs))
    path = Path(out)
    if path.is_dir():
        raise OutputError(
            f"Expected `out` to be a file, but {path} is a folder. Use {path / 'report.html'}."
        )
    writable_folder(path.parent)
    page = render_page(sections, when=datetime.now().astimezone()).encode()
    write_atomically(path, lambda file: file.write(page))
    return path


def judge_runs(runs: Sequence[str | Path]) -> dict[str, Any]:
    """Judge finished runs, in plain values for programs.

    Args:
        runs: Folders of finished runs.

    Returns:
        ``verdict``, the worst of all data sets: ``"good"``, ``"mixed"``, ``"unclear"`` or
        ``"bad"``; ``exit_code`` for it; and ``data``, the verdict on each data set.
    """
    sections = group_records(read_records(runs))
    judged = [{"data": s.title, **judge_section(s).to_record()} for s in sections]
    worst = max((entry["tone"] for entry in judged), key=list(EXIT_CODES).index)
    return {"verdict": worst, "exit_code": EXIT_CODES[worst], "data": judged}


def render_page(sections: Sequence[Section], *, when: datetime) -> str:
    """Render the page as text.

    Args:
        sections: One for each data set.
        when: Date of the page.
    """
    return render_template(
        "report.html",
        date=f"{when:%d %B %Y, %H:%M}".lstrip("0"),
        num_runs=sum(len(section.records) for section in sections),
        num_methods=sum(len(section.methods) for section in sections),
        sections=[
            _context(number, section, most_bytes=PICTURE_BYTES * len(section.methods))
            for number, section in enumerate(sections, 1)
        ],
    )


def _context(number: int, section: Section, *, most_bytes: int) -> dict[str, Any]:
    groups, num_groups = make_groups(section)
    verdict = judge_section(section)
    return {
        "number": number,
        "title": section.title,
        "verdict": verdict,
        "tiles": make_tiles(verdict.compared),
        "data_facts": data_facts(section),
        "methods": [
            {
                "label": method.label,
                "colour": method.colour,
                "meaning": recipe_meaning(method.recipe),
                "facts": method_facts(method),
                "num_seeds": len(method.seeds),
                "learned": method.learned,
            }
            for method in section.methods
        ],
        "columns": make_columns(section),
        "groups": groups,
        "num_groups": num_groups,
        "proofs": make_proofs(section),
        "curves": make_curves(section),
        "gallery": make_gallery(section, most_bytes=most_bytes),
        "runs": run_rows(section),
    }


@dataclass(frozen=True)
class Curve:
    """One quantity over the epochs.

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


@dataclass(frozen=True)
class Group:
    """One group's bars.

    Args:
        name: Name of the group.
        size: Number of its test samples; with several seeds, the mean.
        chart: The chart as SVG.
        lowest: Accuracy of the worst method in this group.
    """

    name: str
    size: int
    chart: Markup
    lowest: float


def make_groups(section: Section, *, most: int = MOST_GROUPS) -> tuple[list[Group], int]:
    """Make the bars of the groups in order, and count the groups; of too many, the hardest."""
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


@dataclass(frozen=True)
class Proof:
    """One run's certificate.

    Args:
        method: Label of its method.
        colour: Number of its colour.
        seed: Random seed of the run.
        box: Box in which masked features may move.
        verified: Fraction of samples that are verified, as text.
        refuted: Fraction of samples that an attack refuted.
        unknown: Fraction of samples that are neither.
        verified_and_right: Fraction of samples that are verified and classified correctly.
        sentence: The meaning in one sentence.
    """

    method: str
    colour: int
    seed: int
    box: str
    verified: str
    refuted: str
    unknown: str
    verified_and_right: str
    sentence: str


def make_proofs(section: Section) -> list[Proof]:
    """Make a row for each run that has a certificate of its weights."""
    return [
        _proof(certificate, method.label, method.colour, record.seed)
        for method in section.methods
        for record in method.records
        if (certificate := record.certificate) is not None
    ]


def _proof(certificate: Certificate, label: str, colour: int, seed: int) -> Proof:
    shares, epsilon = certificate.summary["shares"], certificate.settings.get("epsilon")
    texts = {name: "–" if share is None else percent(share) for name, share in shares.items()}
    return Proof(
        method=label,
        colour=colour,
        seed=seed,
        box="every valid value" if epsilon is None else f"± {epsilon:g}",
        verified=texts["verified"],
        refuted=texts["refuted"],
        unknown=texts["unknown"],
        verified_and_right=texts["verified_and_right"],
        sentence=certificate.sentence,
    )


@dataclass(frozen=True)
class Entry:
    """One method's number.

    Args:
        label: Name of the method.
        colour: Number of its colour.
        value: The number as text.
    """

    label: str
    colour: int
    value: str


@dataclass(frozen=True)
class Tile:
    """One number of every method compared.

    Args:
        title: Name of the number.
        higher_is_better: Whether more is better.
        entries: One entry for each method.
    """

    title: str
    higher_is_better: bool
    entries: tuple[Entry, ...]


def make_tiles(methods: Sequence[Method]) -> list[Tile]:
    """Make the tiles for which every method has a number."""
    tiles = [
        _tile("Right in the worst group", True, methods, _share("group_accuracy/worst")),
        _tile("Right over all samples", True, methods, _share("accuracy")),
        _tile("Gradient inside the mask", False, methods, _share("input_gradient_mass")),
        _tile("Lost when the masked part is exchanged", False, methods, _lost),
        _tile("Proved not to change with the masked part", True, methods, _proved),
    ]
    return [tile for tile in tiles if tile is not None]


def _tile(
    title: str,
    higher_is_better: bool,
    methods: Sequence[Method],
    value: Callable[[Method], str | None],
) -> Tile | None:
    values = [(method, value(method)) for method in methods]
    entries = [Entry(m.label, m.colour, text) for m, text in values if text is not None]
    if not entries or len(entries) < len(methods):
        return None
    return Tile(title, higher_is_better, tuple(entries))


def _share(key: str) -> Callable[[Method], str | None]:
    def value(method: Method) -> str | None:
        estimate = method.estimate(key)
        return None if estimate is None else percent(estimate.value)

    return value


def _lost(method: Method) -> str | None:
    reliance = find_reliance(method)
    if reliance.before is None or reliance.after is None:
        return None
    return points(reliance.before - reliance.after)


def _proved(method: Method) -> str | None:
    """The smallest verified fraction over seeds; None unless every seed has a certificate."""
    certificates = [record.certificate for record in method.records]
    shares = [None if c is None else c.summary["shares"]["verified"] for c in certificates]
    known = [share for share in shares if share is not None]
    return percent(min(known)) if known and len(known) == len(shares) else None
