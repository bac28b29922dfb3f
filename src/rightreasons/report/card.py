"""The report for programs and for a model's repository: ``report.json`` and a model card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from rightreasons.report.section import Method, Section
from rightreasons.report.story import Finding, Repair
from rightreasons.report.summary import data_facts, method_facts, recipe_meaning
from rightreasons.report.verdict import Verdict
from rightreasons.report.wording import percent, plain_text

__all__ = ["Source", "find_sources", "make_record", "render_card"]

FILES = {
    "config.yaml": "settings",
    "results.json": "all numbers of the run",
    "log.jsonl": "training curves",
    "examples.npz": "pictures of test samples",
    "certificate.json": "what is proved",
    "model.safetensors": "the weights",
}
CARD_KEYS = {
    "accuracy": "Right over all test samples",
    "group_accuracy/worst": "Right in the worst group",
    "group_accuracy/average": "Average over groups",
    "swap_accuracy": "Right with exchanged masked parts",
    "input_gradient_mass": "Input gradient inside the mask",
    "calibration_error": "Calibration error",
    "risk_coverage": "Area under the risk-coverage curve",
}


@dataclass(frozen=True)
class Source:
    """A file that numbers of the report come from.

    Args:
        what: What it has.
        path: Its path.
        sha256: Its hash.
    """

    what: str
    path: str
    sha256: str


def find_sources(
    sections: Sequence[Section], audit: Path | None, repair: Repair | None
) -> list[Source]:
    """List every file behind the report, with its hash."""
    files: dict[Path, str] = {}
    for section in sections:
        for method in section.methods:
            for record in method.records:
                for name, what in FILES.items():
                    files[record.folder / name] = f"{method.label}, seed {record.seed}: {what}"
    if audit is not None:
        files[audit / "audit.json"] = "findings"
    if repair is not None:
        files[repair.folder / "fixed.json"] = "the choice and the matrix of shortcuts"
        files[repair.folder / "tried.json"] = "everything that was tried"
        files[repair.folder / "masks" / "quality.json"] = "quality of predicted masks"
    return [
        Source(what, str(path), sha256(path.read_bytes()).hexdigest())
        for path, what in files.items()
        if path.is_file()
    ]


def make_record(
    sections: Sequence[tuple[Section, Verdict]],
    judged: Mapping[str, Any],
    findings: Sequence[Finding],
    repair: Repair | None,
    sources: Sequence[Source],
) -> dict[str, Any]:
    """The report as plain values; each number stands beside the file that it is from."""
    return {
        "format": 1,
        **judged,
        "methods": [
            {"data": section.title, **_method_record(method)}
            for section, _ in sections
            for method in section.methods
        ],
        "findings": [
            {"name": one.name, "verdict": one.verdict, "advice": one.advice, **dict(one.facts)}
            for one in findings
        ],
        "repair": None if repair is None else dict(repair.record),
        "sources": [asdict(source) for source in sources],
    }


def _method_record(method: Method) -> dict[str, Any]:
    return {
        "method": method.label,
        "recipe": method.recipe,
        "runs": [
            {
                "folder": str(record.folder),
                "seed": record.seed,
                "file": str(record.folder / "results.json"),
                "test": record.metrics(),
                "validation": record.metrics("validation"),
                "certificate": None
                if record.certificate is None
                else record.certificate.summary["shares"],
            }
            for record in method.records
        ],
    }


def render_card(
    sections: Sequence[tuple[Section, Verdict]],
    findings: Sequence[Finding],
    repair: Repair | None,
    sources: Sequence[Source],
) -> str:
    """Render the model card as Markdown: the model that was judged best, beside the others."""
    lines = ["# Model card", ""]
    for section, verdict in sections:
        best = verdict.compared[-1] if verdict.compared else section.methods[-1]
        lines += [f"## {section.title}", "", f"**{verdict.badge}.** {verdict.headline}", ""]
        lines += [f"- {sentence}" for sentence in verdict.sentences]
        lines += ["", f"### Model: {best.label}", "", recipe_meaning(best.recipe), ""]
        lines += _table(("", ""), method_facts(best))
        lines += ["", "### Data", "", *_table(("", ""), data_facts(section))]
        lines += ["", "### Results on test data", "", *_results(section.methods)]
        lines += _groups(section.methods)
        proofs = [one.certificate for one in best.records if one.certificate is not None]
        if proofs:
            lines += ["", "### What is proved", "", proofs[0].sentence]
        lines += ["", "### Limits", "", *(f"- {text}" for text in verdict.cautions)]
        lines += [f"- Next: {step}" for step in verdict.next_steps]
    if findings:
        lines += ["", "## What the audit found", ""]
        rows = [(one.name, one.verdict, dict(one.facts).get("Strength", "")) for one in findings]
        lines += _table(("Finding", "Verdict", "Strength"), rows)
    if repair is not None:
        lines += ["", "## How it was repaired", "", repair.sentence, ""]
        lines += [f"- {note}" for note in repair.notes]
        lines += [f"- Warning: {warning}" for warning in repair.warnings]
        if repair.shortcuts:
            rows = [(row.name, row.before or "–", row.after or "–") for row in repair.shortcuts]
            head = ("Accuracy lost if exchanged", "Before", "After")
            lines += ["", *_table(head, rows)]
    lines += ["", "## Files", "", "Every number above is from one of these.", ""]
    rows = [(source.what, f"`{source.path}`", f"`{source.sha256[:12]}`") for source in sources]
    lines += _table(("What", "File", "SHA-256"), rows)
    return plain_text("\n".join(lines) + "\n")


def _results(methods: Sequence[Method]) -> list[str]:
    rows = []
    for key, words in CARD_KEYS.items():
        found = [method.estimate(key) for method in methods]
        if any(found):
            rows.append((words, *("–" if one is None else percent(one.value) for one in found)))
    return _table(("", *(method.label for method in methods)), rows)


def _groups(methods: Sequence[Method]) -> list[str]:
    names = dict.fromkeys(name for method in methods for name in method.group_names)
    rows = []
    for name in names:
        found = [method.estimate(f"group_accuracy/{name}") for method in methods]
        rows.append((name, *("–" if one is None else percent(one.value) for one in found)))
    head = ("Right in the group", *(method.label for method in methods))
    return ["", *_table(head, rows)] if rows else []


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table in Markdown; a bar inside a cell would end it."""
    lines = [head, ["---"] * len(head), *rows]
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return [f"| {' | '.join(line)} |" for line in cells]
