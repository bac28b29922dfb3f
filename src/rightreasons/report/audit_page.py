"""The page of an audit: findings with pictures of planting, from the saved folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rightreasons.audit import Audit
from rightreasons.core.files import read_json, write_atomically
from rightreasons.report.picture import ShownWord, file_address
from rightreasons.report.wording import duration, percent, render_template

__all__ = ["render_audit", "write_audit_page"]

PAGE = "audit.html"
WAYS = {
    "swapped": "exchanged between samples",
    "blurred": "blurred",
    "attacked": "set to the worst values",
}


def write_audit_page(folder: str | Path) -> Path:
    """Write ``audit.html`` beside a saved audit, as one self-contained page.

    Args:
        folder: Folder of the audit.

    Returns:
        Path of the page.
    """
    root = Path(folder)
    Audit.load(root)  # refuses a folder without an audit, with a remedy
    page = render_audit(read_json(root / "audit.json"), root / "pictures").encode()
    write_atomically(root / PAGE, lambda file: file.write(page))
    return root / PAGE


def render_audit(content: Mapping[str, Any], pictures: Path) -> str:
    """Render the page as text.

    Args:
        content: Contents of ``audit.json``.
        pictures: Folder with the pictures.
    """
    return render_template(
        "audit.html",
        data=content["data"],
        facts=_facts(content),
        headline=_headline(content),
        findings=[_context(one, pictures) for one in content["findings"]],
        others=[_context(one, pictures) for one in content["others"]],
        reliance=_reliance(content.get("reliance")),
        wrong=content.get("sure_and_wrong", []),
        percent=percent,
    )


def _facts(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    limits = content["thresholds"]
    return [
        ("Samples", f"{content['num_search']} searched, {content['num_cause']} to plant on"),
        ("Model", "asked" if content["has_model"] else "none: the data alone"),
        ("Seed", str(content["seed"])),
        (
            "Thresholds",
            f"tells the label {limits['strength']:g}, lower bound of the planted effect "
            f"{limits['effect']:g}, false discoveries {percent(limits['false_discoveries'])}",
        ),
        ("Time", duration(content["seconds"])),
    ]


def _headline(content: Mapping[str, Any]) -> str:
    found = content["findings"]
    if not found:
        return "Nothing is above the thresholds. Shortcuts that the search cannot see may exist."
    used = sum(one["verdict"] == "the model uses it" for one in found)
    noun = "finding is" if len(found) == 1 else "findings are"
    told = f"{len(found)} {noun} above the thresholds"
    return f"{told}; the model uses {used} of them." if content["has_model"] else f"{told}."


def _context(finding: Mapping[str, Any], pictures: Path) -> dict[str, Any]:
    effect, removal = finding["effect"], finding["removal"]
    shown: list[dict[str, Any]] = []
    planted: list[dict[str, Any]] = []
    for picture in finding["pictures"]:
        if picture["shows"] == "typical":
            shown.append(_shown(picture.get("words", picture.get("file")), pictures))
            continue
        before, after = picture["predicted"]
        planted.append(
            {
                "label": picture["label"],
                "before": {**_shown(picture["before"], pictures), "told": before},
                "donor": _shown(picture["donor"], pictures),
                "after": {**_shown(picture["after"], pictures), "told": after},
                "changed": before != after,
            }
        )
    tells = finding["tells_label"]
    return {
        **finding,
        "is_used": finding["verdict"] == "the model uses it",
        "rows": [
            ("Tells the label by itself", "–" if tells is None else f"{tells:.2f} (1 is always)"),
            ("Planted effect", _words(effect)),
            ("Cost of removal beyond chance", _words(removal)),
            ("Present in", percent(finding["prevalence"])),
            ("Classes", ", ".join(finding["classes"]) or "–"),
        ],
        "shown": shown,
        "planted": planted,
    }


def _shown(sample: Any, pictures: Path) -> dict[str, Any]:
    """A sample as a picture, or a text as its words, each marked or not."""
    if isinstance(sample, str):
        return {"image": file_address(pictures / sample), "words": None}
    return {"words": [ShownWord(word, is_masked=marked) for word, marked in sample]}


def _words(effect: Mapping[str, Any] | None) -> str:
    if effect is None:
        return "–"
    interval = f"{effect['low']:.2f} to {effect['high']:.2f}"
    return f"{effect['value']:.2f} ({interval}, {effect['num']} samples)"


def _reliance(measured: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if measured is None:
        return None
    rows = []
    for way, words in WAYS.items():
        one = measured[way]
        parts = {**one["classes"], **one["groups"]}
        worst = max(parts.items(), key=lambda item: item[1]["value"], default=None)
        rows.append(
            {
                "way": words,
                "lost": _words(one["lost"]),
                "changed": percent(one["changed"]["value"]),
                "worst": "–" if worst is None else f"{worst[0]}: {worst[1]['value']:.2f}",
            }
        )
    return {
        "rows": rows,
        "num": measured["num"],
        "attribution": percent(measured["attribution"]["value"]),
        "area": percent(measured["area"]),
    }
