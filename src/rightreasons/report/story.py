"""What an audit found and what a repair tried, read from their folders for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rightreasons.core.files import Unreadable, check_file, read_json
from rightreasons.errors import RunNotFoundError
from rightreasons.report.picture import file_address
from rightreasons.report.wording import duration, percent, points, settings

__all__ = [
    "Finding",
    "Picture",
    "Repair",
    "ShortcutRow",
    "Trial",
    "expand_runs",
    "read_findings",
    "read_repair",
]

MOST_FINDINGS = 12
MOST_TYPICAL, MOST_PLANTED = 3, 9
PICTURE_BYTES = 1 << 20
FIXED, TRIED = "fixed.json", "tried.json"
SHOWN = ("file", "typical", "before", "donor", "after")
PLANTED = SHOWN[2:]
CAPTIONS = {
    "file": "typical",
    "typical": "typical",
    "before": "before planting",
    "after": "after planting",
    "donor": "taken from",
}


@dataclass(frozen=True)
class Picture:
    """A picture of a finding.

    Args:
        address: Data URL.
        caption: What it shows.
        is_planted: Whether it belongs to a row of planting: before, the donor, after.
    """

    address: str
    caption: str
    is_planted: bool = False


@dataclass(frozen=True)
class Finding:
    """What an audit says of one possible shortcut; empty where it says nothing.

    Args:
        name: Its name.
        verdict: What is said of it.
        facts: Names and values.
        advice: What to do.
        pictures: Typical samples, and samples before and after planting.
    """

    name: str
    verdict: str
    facts: tuple[tuple[str, str], ...]
    advice: str
    pictures: tuple[Picture, ...]

    @property
    def typical(self) -> tuple[Picture, ...]:
        """Pictures of typical samples."""
        return tuple(one for one in self.pictures if not one.is_planted)[:MOST_TYPICAL]

    @property
    def planted(self) -> tuple[Picture, ...]:
        """Pictures of planting, in rows."""
        return tuple(one for one in self.pictures if one.is_planted)[:MOST_PLANTED]


@dataclass(frozen=True)
class ShortcutRow:
    """A row of the matrix of shortcuts.

    Args:
        name: Name of the shortcut.
        is_removed: Whether the repair was to remove it.
        before: Accuracy that exchanging it cost before, as text.
        after: The same after the repair.
        before_interval: Its interval, as text.
        after_interval: Its interval, as text.
        masks: What its masks cover, as text; empty if it has none.
    """

    name: str
    is_removed: bool
    before: str
    after: str
    before_interval: str
    after_interval: str
    masks: str = ""


@dataclass(frozen=True)
class Trial:
    """A row of the table of trials, as text.

    Args:
        number: Its number.
        method: Its method.
        settings: Its settings.
        state: How it ended, and why if not well.
        score: The number that decided.
        accuracy: Plain accuracy on validation data.
        kept: Whether accuracy was kept.
        seconds: Time of training.
        is_chosen: Whether it was chosen.
    """

    number: int
    method: str
    settings: str
    state: str
    score: str
    accuracy: str
    kept: str
    seconds: str
    is_chosen: bool


@dataclass(frozen=True)
class Repair:
    """What a repair did.

    Args:
        folder: Its folder.
        sentence: The result in one sentence.
        notes: How it was chosen, what had to be kept, and the time.
        warnings: Shortcuts that grew.
        shortcuts: The matrix.
        trials: Everything that was tried.
        masks: Facts about predicted masks; empty if there are none.
        decided_by: What the trials were compared by.
        record: The content of ``fixed.json``.
    """

    folder: Path
    sentence: str
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    shortcuts: tuple[ShortcutRow, ...]
    trials: tuple[Trial, ...]
    masks: tuple[tuple[str, str], ...]
    decided_by: str
    record: Mapping[str, Any]


def expand_runs(runs: Sequence[str | Path]) -> tuple[list[Path], Path | None]:
    """Put the runs of a repair in place of its folder; gives the folder of the first repair too."""
    found: list[Path] = []
    repair = None
    for run in [runs] if isinstance(runs, str | Path) else runs:
        folder = Path(run)
        if not (folder / FIXED).is_file():
            found.append(folder)
            continue
        repair = repair or folder
        places = _read(folder / FIXED, "a repair").get("runs", {})
        found += [folder / str(place) for place in places.values()]
    return found, repair


def read_findings(folder: str | Path) -> list[Finding]:
    """Read the findings of an audit; what it leaves out is left out on the page."""
    root = Path(folder)
    told = _read(root / "audit.json", "an audit")
    listed = told.get("findings")
    records = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return [_finding(root, record) for record in records[:MOST_FINDINGS]]


def read_repair(folder: str | Path) -> Repair:
    """Read a repair from its folder."""
    root = Path(folder)
    fixed = _read(root / FIXED, "a repair")
    tried = _read(root / TRIED, "a repair")
    budget, num = fixed.get("budget", {}), fixed.get("num_trials")
    notes = (
        *_accuracy_note(fixed),
        f"Trials were compared by the {fixed.get('selected_what')}: {fixed.get('selected_why')}.",
        f"What had to be kept is {fixed.get('kept_what')}. Test data took no part in the choice.",
        f"{num} {'trial' if num == 1 else 'trials'} took "
        f"{duration(float(budget.get('spent', 0)))} of "
        f"{duration(float(budget.get('seconds', 0)))}.",
    )
    return Repair(
        folder=root,
        sentence=str(fixed.get("sentence", "")),
        notes=notes,
        warnings=tuple(str(one) for one in fixed.get("warnings", ())),
        shortcuts=tuple(_shortcut(row) for row in fixed.get("shortcuts", ())),
        trials=tuple(_trial(row, tried.get("chosen")) for row in tried.get("trials", ())),
        masks=_mask_facts(root / "masks" / "quality.json"),
        decided_by=str(fixed.get("selected_what", "")),
        record=fixed,
    )


def _accuracy_note(fixed: Mapping[str, Any]) -> tuple[str, ...]:
    """How the plain accuracy changed, and how much of it the original owed to the shortcut."""
    before = fixed.get("original") or {}
    after = (fixed.get("chosen") or {}).get("values") or {}
    if "accuracy" not in before or "accuracy" not in after:
        return ()
    owed = max(before["accuracy"] - before.get("swap_accuracy", before["accuracy"]), 0.0)
    gone = f"; the original owed {points(owed)} of its own to the shortcut" if owed else ""
    one, two = percent(before["accuracy"]), percent(after["accuracy"])
    return (f"Accuracy on validation data as they are: {one} before, {two} after{gone}.",)


def _read(path: Path, what: str) -> dict[str, Any]:
    try:
        told = read_json(path)
    except (OSError, Unreadable) as error:
        why = "there is none" if isinstance(error, FileNotFoundError) else f"it is damaged: {error}"
        raise RunNotFoundError(
            f"Expected {path} of {what}, but {why}. Name the folder that was given to --out."
        ) from error
    if not isinstance(told, dict):
        raise RunNotFoundError(f"Expected {path} of {what}, but it holds no names with values.")
    return told


def _finding(root: Path, record: Mapping[str, Any]) -> Finding:
    strength, interval = record.get("strength"), record.get("interval")
    number = f"{strength:.2f}" if isinstance(strength, int | float) else ""
    if number and isinstance(interval, list) and len(interval) == 2:
        number += f" ({float(interval[0]):.2f} to {float(interval[1]):.2f})"
    prevalence, classes = record.get("prevalence"), record.get("classes")
    facts = (
        ("Kind", str(record.get("kind") or "")),
        ("Strength", number),
        ("Samples", percent(prevalence) if isinstance(prevalence, int | float) else ""),
        ("Classes", ", ".join(map(str, classes)) if isinstance(classes, list) else ""),
    )
    return Finding(
        name=str(record.get("name") or "a finding"),
        verdict=str(record.get("verdict") or ""),
        facts=tuple((name, value) for name, value in facts if value),
        advice=str(record.get("advice") or ""),
        pictures=tuple(_pictures(root, record.get("pictures"))),
    )


def _pictures(root: Path, listed: object) -> list[Picture]:
    """The pictures of a finding: names of files, or names by what each shows."""
    pictures = []
    for entry in listed if isinstance(listed, list) else ():
        named = entry if isinstance(entry, dict) else {"file": entry}
        for what in SHOWN:
            file = _picture_file(root, named.get(what))
            if file is not None:
                caption = CAPTIONS[what] if isinstance(entry, dict) else ""
                predicted = named.get("predicted")
                if what in ("before", "after") and isinstance(predicted, list) and predicted:
                    caption += f": {predicted[0 if what == 'before' else -1]}"
                pictures.append(Picture(file_address(file), caption, what in PLANTED))
    return pictures


def _picture_file(root: Path, name: object) -> Path | None:
    """A PNG inside the folder of the audit; None for anything else."""
    if not isinstance(name, str) or not name.endswith(".png"):
        return None
    for file in (root / name, root / "pictures" / name):
        try:
            check_file(file, limit=PICTURE_BYTES)
        except (OSError, Unreadable):
            continue
        if file.resolve().is_relative_to(root.resolve()):
            return file
    return None


def _shortcut(row: Mapping[str, Any]) -> ShortcutRow:
    cells = [_lost(row.get(name)) for name in ("before", "after")]
    return ShortcutRow(
        name=str(row.get("name", "")),
        is_removed=bool(row.get("fixed")),
        before=cells[0][0],
        after=cells[1][0],
        before_interval=cells[0][1],
        after_interval=cells[1][1],
        masks=_covered(row.get("masks")),
    )


def _covered(masks: object) -> str:
    if not isinstance(masks, dict):
        return ""
    return (
        f"masks on {percent(masks['samples'])} of the validation samples, {percent(masks['area'])} "
        "of each"
    )


def _lost(lost: object) -> tuple[str, str]:
    if not isinstance(lost, dict):
        return "", ""
    ends = [points(lost[end]).removesuffix(" points") for end in ("low", "high")]
    return points(lost["cost"]), f"{ends[0]} to {ends[1]}"


def _trial(row: Mapping[str, Any], chosen: object) -> Trial:
    values = row.get("values") or {}
    why = f": {row['reason']}" if row.get("reason") else ""
    return Trial(
        number=int(row["number"]),
        method=str(row["method"]),
        settings=settings({**row["settings"], "lr": row["lr"], "epochs": row["epochs"]}),
        state=f"{row['state']}{why}",
        score=percent(values["score"]) if "score" in values else "–",
        accuracy=percent(values["accuracy"]) if "accuracy" in values else "–",
        kept=("yes" if row["keeps"] else "no") if values else "–",
        seconds=duration(float(row["seconds"])),
        is_chosen=row["number"] == chosen,
    )


def _mask_facts(path: Path) -> tuple[tuple[str, str], ...]:
    """Facts about masks that were predicted from a few."""
    if not path.is_file():
        return ()
    told = _read(path, "predicted masks")
    facts = [
        ("Drawn by hand", str(told.get("num_annotations", ""))),
        ("Predicted", str(told.get("num_predicted", ""))),
    ]
    quality = told.get("held_out")
    if isinstance(quality, dict):
        names = {"iou": "IoU with masks by hand", "calibration_error": "Calibration error"}
        facts += [(words, f"{quality[name]:.3f}") for name, words in names.items()]
        facts.append(("Compared on", f"{quality.get('num_masks')} validation masks"))
    else:
        facts.append(("Quality", "unknown: no validation sample has a mask by hand"))
    return tuple(facts)
