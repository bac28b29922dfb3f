"""Tables and numbers of docs/results/audit.md and benchmarks/results/audit/tables.md."""

import json
import math
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

from audit_cost import ratios
from audit_detection import PARTS, SEEDS
from findings.kept import NOT_RUN, RESULTS, markdown, percent
from rightreasons.audit.findings import USED

FOUND, FALSE = 0.9, 0.05
"""Least share of planted shortcuts that are found first, largest share of clean runs with any."""
NOT_PLANTED = ("SVHN, metadata column", "CIFAR-10, metadata column")
NATURAL = ("Waterbirds", "CelebA hair")
LINEAR = 1.1
"""How much more than twice the time twice the images may take, as a factor."""
MINUTES = 5
WORDS = {"images": "images", "size": "pixels a side", "classes": "classes"}
Row = dict[str, Any]


@cache
def _rows(name: str) -> list[Row]:
    path = RESULTS / "audit" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _planted(part: str) -> list[Row]:
    """Runs with a planted shortcut that the net relies on, or that no net can see."""
    return [
        row
        for row in _rows("detection")
        if row["part"] == part and row["expected"] and (row["relies"] or row["set"] in NOT_PLANTED)
    ]


def _clean(part: str) -> list[Row]:
    return [
        row
        for row in _rows("detection")
        if row["part"] == part and not row["expected"] and row["set"] not in NATURAL
    ]


def _is_first(row: Row) -> bool:
    return row["first"] in row["expected"]


def verdict() -> str:
    """Show what the audit must do, and whether it does; what failed or is not run comes first."""
    rows = []
    for part in ("test", "development"):
        planted, clean = _planted(part), _clean(part)
        first, wrong = sum(map(_is_first, planted)), sum(row["num_findings"] > 0 for row in clean)
        used = sum(_is_first(row) and row["found"][0]["verdict"] == USED for row in planted)
        seen = [row for row in planted if row["set"] not in NOT_PLANTED]
        rows += [
            _line(
                f"planted shortcuts found first, {part} sets",
                (first, len(planted)),
                f"{percent(FOUND, 0)} %",
                first >= FOUND * len(planted),
            ),
            _line(
                f"clean runs with a finding, {part} sets",
                (wrong, len(clean)),
                f"at most {percent(FALSE, 0)} %",
                wrong <= FALSE * len(clean),
            ),
            _line(f'of the planted, said "{USED}", {part} sets', (used, len(seen)), "all", None),
        ]
    steps = ratios(_rows("cost"))
    held = sum(one["times as long"] <= LINEAR * one["linear"] for one in steps)
    what = "twice the images, pixels or classes take at most twice the time"
    rows += [_line(what, (held, len(steps)), "all", None), _time_line()]
    total = len(SEEDS) * sum(map(len, PARTS.values()))
    run = len(_rows("detection"))
    rows.append(_line("runs of all sets and three seeds", (run, total), "all", run == total))
    rows.sort(key=lambda row: row[3] == "yes")
    return markdown(("what", "found", "needed", "reached"), rows)


def _line(what: str, counts: tuple[int, int], needed: str, reached: bool | None) -> tuple[str, ...]:
    reached = counts[0] == counts[1] if reached is None else reached
    if not counts[1]:
        return what, NOT_RUN, needed, "–"
    return what, f"{counts[0]} of {counts[1]}", needed, "yes" if reached else "no"


def _time_line() -> tuple[str, ...]:
    what, needed = "2,000 images of 96 pixels, seconds of a processor", f"{60 * MINUTES}"
    for row in _rows("cost"):
        if (row["images"], row["size"]) == (2000, 96):
            seconds = row["processor_seconds"]
            return what, f"{seconds:.0f}", needed, "yes" if seconds <= 60 * MINUTES else "no"
    return what, NOT_RUN, needed, "–"


def planted(part: str = "test") -> str:
    """List the sets with a planted shortcut."""
    rows = []
    for name, runs in _by_set(part, lambda row: bool(row["expected"])):
        used = [row for row in runs if row["relies"]]
        counted = runs if name in NOT_PLANTED else used
        rows.append(
            (
                name,
                "–" if name in NOT_PLANTED else f"{len(used)} of {len(runs)}",
                f"{sum(map(_is_first, counted))} of {len(counted)}",
                _range(_best(row, "strength") for row in counted),
                _range(_best(row, "effect") for row in counted),
            )
        )
    header = ("set", "net relies on it", "found first", "strength", "planted effect")
    return markdown(header, rows)


def clean(part: str = "test") -> str:
    """List the sets without a planted shortcut."""
    rows = []
    for name, runs in _by_set(part, lambda row: not row["expected"]):
        told = [row["found"][0] for row in runs if row["num_findings"]]
        rows.append(
            (
                name,
                f"{len(told)} of {len(runs)}",
                ", ".join(dict.fromkeys(f"{one['kind']}: {one['verdict']}" for one in told)) or "–",
                _range(_best(row, "strength") for row in runs),
                _range(_best(row, "effect") for row in runs),
            )
        )
    header = ("set", "runs with a finding", "first", "largest strength", "largest effect")
    return markdown(header, rows)


def runs() -> str:
    """List every finding and what comes next to it, run by run."""
    rows = []
    for row in sorted(_rows("detection"), key=lambda row: (row["part"], row["set"], row["seed"])):
        relies = "–" if row["reliance"] is None else f"{row['reliance']:.2f}"
        for number, one in enumerate(row["found"][: max(1, row["num_findings"])]):
            start = (row["set"], str(row["seed"]), f"{row['test_accuracy']:.2f}", relies)
            effect = "–" if one["effect"] is None else f"{one['effect'][1]:.2f}"
            strength = "–" if math.isnan(one["tells_label"]) else f"{one['tells_label']:.2f}"
            rows.append(
                (*(("",) * 4 if number else start), one["kind"], strength, effect, one["verdict"])
            )
    header = ("set", "seed", "test accuracy", "exchange costs", "kind")
    return markdown((*header, "strength", "effect, lower bound", "verdict"), rows)


def _by_set(part: str, wanted: Callable[[Row], bool]) -> list[tuple[str, list[Row]]]:
    chosen = [row for row in _rows("detection") if row["part"] == part and wanted(row)]
    names = dict.fromkeys(row["set"] for row in chosen)
    return [(name, [row for row in chosen if row["set"] == name]) for name in names]


def _best(row: Row, name: str) -> float:
    """The largest strength, or lower bound of the effect, of what counts in a run."""
    kinds = row["expected"]
    found = [one for one in row["found"] if kinds is None or one["kind"] in kinds]
    if name == "effect":
        return max((one["effect"][1] for one in found if one["effect"]), default=math.nan)
    known = [one["tells_label"] for one in found if not math.isnan(one["tells_label"])]
    return max(known, default=math.nan)


def _range(values: Iterable[float]) -> str:
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return "–"
    low, high = f"{min(known):.2f}", f"{max(known):.2f}"
    return low if low == high else f"{low} to {high}"


def cost() -> str:
    """List time and memory of each cell."""
    rows = [
        (
            f"{row['images']:,}",
            str(row["size"]),
            str(row["classes"]),
            f"{row['processor_seconds']:.0f}",
            f"{row['seconds']:.0f}",
            f"{row['megabytes'] - row['megabytes_before']:,}",
        )
        for row in _rows("cost")
    ]
    if not rows:
        return NOT_RUN
    header = ("images", "pixels a side", "classes", "processor seconds", "seconds")
    return markdown((*header, "megabytes beside the images"), rows)


def growth() -> str:
    """List what twice the images, the side or the classes cost."""
    rows = []
    for one in ratios(_rows("cost")):
        start, name = one["from"], WORDS[one["doubled"]]
        most = LINEAR * one["linear"]
        rows.append(
            (
                f"{start[one['doubled']]:,} to {2 * start[one['doubled']]:,} {name}",
                f"{one['times as long']:.2f}",
                f"at most {most:.1f}",
                "yes" if one["times as long"] <= most else "no",
            )
        )
    if not rows:
        return NOT_RUN
    return markdown(("step", "times as long", "linear is", "held"), rows)


TABLES = {
    "clean": clean,
    "clean-development": partial(clean, "development"),
    "cost": cost,
    "growth": growth,
    "planted": planted,
    "planted-development": partial(planted, "development"),
    "runs": runs,
    "verdict": verdict,
}


@cache
def values() -> dict[str, str]:
    """Return every number of the page by its name."""
    rows = _rows("detection")
    limits = rows[-1]["thresholds"] if rows else {"strength": math.nan, "effect": math.nan}
    return {
        "num-runs": str(len(rows)),
        "strength": f"{limits['strength']:.2f}",
        "effect": f"{limits['effect']:.2f}",
    }
