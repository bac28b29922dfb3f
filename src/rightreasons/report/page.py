"""The report: one self-contained page, from saved results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup

from rightreasons.certification import Certificate
from rightreasons.core.files import writable_folder, write_atomically, write_json
from rightreasons.errors import OutputError
from rightreasons.report.card import Source, find_sources, make_record, render_card
from rightreasons.report.chart import Bar, bar_chart
from rightreasons.report.column import make_columns
from rightreasons.report.curves import make_curves, make_risks
from rightreasons.report.gallery import make_gallery
from rightreasons.report.record import read_records
from rightreasons.report.reliance import find_reliance
from rightreasons.report.section import Method, Section, group_records
from rightreasons.report.story import Finding, Repair, expand_runs, read_findings, read_repair
from rightreasons.report.summary import data_facts, method_facts, recipe_meaning, run_rows
from rightreasons.report.verdict import Verdict, judge_section
from rightreasons.report.wording import percent, points, render_template

__all__ = [
    "Entry",
    "Group",
    "Proof",
    "Tile",
    "judge_runs",
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


def write_report(
    runs: Sequence[str | Path], out: str | Path, *, audit: str | Path | None = None
) -> Path:
    """Write one self-contained HTML page about finished runs.

    Runs that differ in their seed alone are one method. Methods on the same data are compared in
    one section. Only saved results are read, never a model or data. Beside the page, under its
    name, are ``.json`` with all numbers and their files, and ``.md``, a model card.

    Args:
        runs: Folders of finished runs, or the folder of a repair, which stands for its runs.
        out: The HTML file; missing folders are created.
        audit: Folder of an audit, whose findings the page shows.

    Returns:
        Path of the page.

    Raises:
        InvalidSettingError: There are no runs.
        RunNotFoundError: Folders hold no finished run; the message names all of them.
        OutputError: The file cannot be written.
    """
    folders, place = expand_runs(runs)
    sections = group_records(read_records(folders))
    findings = [] if audit is None else read_findings(audit)
    repair = None if place is None else read_repair(place)
    path = Path(out)
    if path.is_dir():
        raise OutputError(
            f"Expected `out` to be a file, but {path} is a folder. Use {path / 'report.html'}."
        )
    writable_folder(path.parent)
    sources = find_sources(sections, None if audit is None else Path(audit), repair)
    now = datetime.now().astimezone()
    text = render_page(sections, when=now, findings=findings, repair=repair, sources=sources)
    pairs = [(section, judge_section(section)) for section in sections]
    card = render_card(pairs, findings, repair, sources).encode()
    write_atomically(path, lambda file: file.write(text.encode()))
    write_atomically(path.with_suffix(".md"), lambda file: file.write(card))
    record = make_record(pairs, _summarise(pairs), findings, repair, sources)
    write_json(path.with_suffix(".json"), record)
    return path


def judge_runs(runs: Sequence[str | Path]) -> dict[str, Any]:
    """Judge finished runs, in plain values for programs.

    Args:
        runs: Folders of finished runs, or of a repair.

    Returns:
        ``verdict``, the worst of all data sets: ``"good"``, ``"mixed"``, ``"unclear"`` or
        ``"bad"``; ``exit_code`` for it; and ``data``, the verdict on each data set.
    """
    sections = group_records(read_records(expand_runs(runs)[0]))
    return _summarise([(section, judge_section(section)) for section in sections])


def _summarise(pairs: Sequence[tuple[Section, Verdict]]) -> dict[str, Any]:
    judged = [{"data": section.title, **verdict.to_record()} for section, verdict in pairs]
    worst = max((entry["tone"] for entry in judged), key=list(EXIT_CODES).index)
    return {"verdict": worst, "exit_code": EXIT_CODES[worst], "data": judged}


def render_page(
    sections: Sequence[Section],
    *,
    when: datetime,
    findings: Sequence[Finding] = (),
    repair: Repair | None = None,
    sources: Sequence[Source] = (),
) -> str:
    """Render the page as text.

    Args:
        sections: One for each data set.
        when: Date of the page.
        findings: Findings of an audit.
        repair: What a repair did.
        sources: Files that the numbers come from.
    """
    return render_template(
        "report.html",
        date=f"{when:%d %B %Y, %H:%M}".lstrip("0"),
        num_runs=sum(len(section.records) for section in sections),
        num_methods=sum(len(section.methods) for section in sections),
        findings=findings,
        repair=repair,
        sources=sources,
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
        "risks": make_risks(section),
        "curves": make_curves(section),
        "gallery": make_gallery(section, most_bytes=most_bytes),
        "runs": run_rows(section),
    }


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
