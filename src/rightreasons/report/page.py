"""The page itself: saved runs in, one HTML file out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from rightreasons.checkpoint import writable_folder, write_atomically
from rightreasons.errors import OutputError
from rightreasons.report.column import columns_of
from rightreasons.report.curve import curves_of
from rightreasons.report.gallery import gallery_of
from rightreasons.report.group import groups_of
from rightreasons.report.proof import proofs_of
from rightreasons.report.record import read_records
from rightreasons.report.section import Section, sections_of
from rightreasons.report.summary import data_facts, method_facts, recipe_meaning, run_rows
from rightreasons.report.tile import tiles_of
from rightreasons.report.verdict import verdict_of

__all__ = ["rendered", "write_report"]

PICTURE_BYTES = 300_000  # for each method


def write_report(runs: Sequence[str | Path], out: str | Path) -> Path:
    """Write one self-contained HTML page about finished runs.

    Runs that differ in their seed alone are one method; methods on the same data are compared;
    other data get a section of their own. Only what the runs saved is read, never a model or data.

    Args:
        runs: Folders of finished runs.
        out: The HTML file; folders above it are made.

    Returns:
        Where it was written.

    Raises:
        InvalidSettingError: There are no runs.
        RunNotFoundError: A folder holds no finished run; all such are named.
        OutputError: The file cannot be written.
    """
    sections = sections_of(read_records(runs))
    path = Path(out)
    if path.is_dir():
        raise OutputError(
            f"Expected `out` to be a file, but {path} is a folder. Use {path / 'report.html'}."
        )
    writable_folder(path.parent)
    page = rendered(sections, when=datetime.now().astimezone()).encode()
    write_atomically(path, lambda file: file.write(page))
    return path


def rendered(sections: Sequence[Section], *, when: datetime) -> str:
    """The page as text.

    Args:
        sections: One for each data set.
        when: The date it bears.
    """
    environment = Environment(
        loader=PackageLoader("rightreasons.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(
        date=f"{when:%d %B %Y, %H:%M}".lstrip("0"),
        num_runs=sum(len(section.records) for section in sections),
        num_methods=sum(len(section.methods) for section in sections),
        sections=[
            _context(number, section, most_bytes=PICTURE_BYTES * len(section.methods))
            for number, section in enumerate(sections, 1)
        ],
    )


def _context(number: int, section: Section, *, most_bytes: int) -> dict[str, Any]:
    groups, num_groups = groups_of(section)
    verdict = verdict_of(section)
    return {
        "number": number,
        "title": section.title,
        "verdict": verdict,
        "tiles": tiles_of(verdict.compared),
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
        "columns": columns_of(section),
        "groups": groups,
        "num_groups": num_groups,
        "proofs": proofs_of(section),
        "curves": curves_of(section),
        "gallery": gallery_of(section, most_bytes=most_bytes),
        "runs": run_rows(section),
    }
