"""The folder of an audit: ``audit.json``, the regions of its findings, and pictures.

::

    audit.json               facts, findings, numbers
    region_1.npz             where finding 1 lies, from which masks are made
    pictures/1_typical_1.png, 1_before_1.png, 1_after_1.png, 1_donor_1.png

Texts have no pictures: ``audit.json`` holds their words, and whether each is marked.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image
from torch import Tensor

from rightreasons.audit.cause import Effect, name_class
from rightreasons.audit.findings import Finding
from rightreasons.audit.regions import Region
from rightreasons.core.arrays import read_arrays
from rightreasons.core.files import (
    Unreadable,
    read_json,
    writable_folder,
    write_atomically,
    write_json,
)
from rightreasons.errors import DatasetCorruptError, RunNotFoundError

if TYPE_CHECKING:
    from rightreasons.audit.audit import Audit

__all__ = ["load_audit", "save_audit"]

FORMAT = 1
WRITTEN = re.compile(r"region_\d+\.npz|pictures/\d+_(typical|region|before|after|donor)_\d+\.png")
"""Files that an audit writes beside ``audit.json``; all others in its folder are the user's."""


def save_audit(audit: Audit, folder: str | Path) -> Path:
    """Write an audit; see the module for the files.

    Args:
        audit: The audit.
        folder: Folder to write; files of an older audit there are replaced, others stay.
    """
    root = writable_folder(folder)
    pictures = writable_folder(root / "pictures")
    if (root / "audit.json").exists():
        for file in [*root.iterdir(), *pictures.iterdir()]:
            if WRITTEN.fullmatch(file.relative_to(root).as_posix()):
                file.unlink()
    records = []
    everything = [*audit.findings, *audit.others]
    valid_range = audit.facts.get("valid_range", (0.0, 1.0))
    classes = list(audit.facts.get("classes", ()))
    for number, finding in enumerate(everything, 1):
        record = _record(finding, classes)
        record["number"] = number
        record["region"] = finding.region is not None
        record["pictures"] = _write_pictures(pictures, number, finding, classes, valid_range)
        if finding.region is not None:
            arrays: Any = finding.region.to_arrays()
            write_atomically(
                root / f"region_{number}.npz",
                lambda file, arrays=arrays: np.savez_compressed(file, **arrays),  # type: ignore[misc]
            )
        records.append(record)
    write_json(
        root / "audit.json",
        {
            "format": FORMAT,
            **audit.facts,
            "reliance": audit.reliance,
            "findings": [one for one in records if one["flagged"]],
            "others": [one for one in records if not one["flagged"]],
        },
    )
    return root


def load_audit(folder: str | Path) -> Audit:
    """Read an audit back from its folder."""
    from rightreasons.audit.audit import Audit

    root = Path(folder)
    try:
        content = read_json(root / "audit.json")
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise Unreadable(f"it is not of format {FORMAT}")
        found = [
            [_finding(root, one, content["classes"]) for one in content[key]]
            for key in ("findings", "others")
        ]
    except FileNotFoundError as error:
        raise RunNotFoundError(
            f"Expected an audit in {root}, but it has no {Path(str(error).split()[-1]).name}. "
            "Write one with `rightreasons audit --out`."
        ) from error
    except (Unreadable, KeyError, TypeError, ValueError) as error:
        raise DatasetCorruptError(
            f"Expected {root / 'audit.json'} as rightreasons wrote it, but cannot read it: {error}."
        ) from error
    kept = ("format", "reliance", "findings", "others")
    facts = {name: value for name, value in content.items() if name not in kept}
    return Audit(tuple(found[0]), tuple(found[1]), facts, content.get("reliance"))


def _record(finding: Finding, classes: Sequence[str]) -> dict[str, Any]:
    interval = finding.interval
    return {
        "name": finding.name,
        "kind": finding.kind,
        "verdict": finding.verdict,
        "flagged": finding.flagged,
        "strength": finding.strength,
        "interval": None if interval is None else list(interval),
        "tells_label": finding.tells_label,
        "p_value": finding.p_value,
        "effect": None if finding.effect is None else finding.effect.to_record(classes),
        "removal": None if finding.removal is None else finding.removal.to_record(classes),
        "prevalence": finding.prevalence,
        "classes": list(finding.classes),
        "area": finding.area,
        "details": finding.details,
        "advice": finding.advice,
    }


def _finding(root: Path, record: dict[str, Any], classes: Sequence[str]) -> Finding:
    path = root / f"region_{record['number']}.npz"
    has_region = record.get("region", True) and path.exists()  # older audits do not say it
    region = Region.from_arrays(read_arrays(path)) if has_region else None
    tells = record["tells_label"]
    return Finding(
        name=record["name"],
        kind=record["kind"],
        tells_label=math.nan if tells is None else tells,
        p_value=record["p_value"],
        effect=_effect(record["effect"], classes),
        removal=_effect(record["removal"], classes),
        prevalence=record["prevalence"],
        classes=tuple(record["classes"]),
        area=record["area"],
        verdict=record["verdict"],
        flagged=record["flagged"],
        details=record["details"],
        region=region,
    )


def _effect(record: dict[str, Any] | None, classes: Sequence[str]) -> Effect | None:
    if record is None:
        return None
    by_class = {}
    for name, one in record.get("by_class", {}).items():
        effect = _effect(one, classes)
        if effect is not None:
            by_class[list(classes).index(name)] = effect
    return Effect(record["value"], record["low"], record["high"], record["num"], by_class)


def _write_pictures(
    folder: Path,
    number: int,
    finding: Finding,
    classes: Sequence[str],
    valid_range: Sequence[float],
) -> list[dict[str, Any]]:
    """Write the pictures of a finding; gives what each shows."""
    told: list[dict[str, Any]] = []
    for place, picture in enumerate(finding.pictures, 1):
        if isinstance(picture, list):
            told.append({"shows": "typical", "words": picture})
            continue
        name = f"{number}_typical_{place}.png"
        mask = None
        if finding.region is not None:
            mask = finding.region.locate(picture[None])[0]
        _write_picture(folder / name, picture, valid_range)
        if mask is not None:
            _write_picture(folder / f"{number}_region_{place}.png", mask, (0.0, 1.0))
        told.append({"shows": "typical", "file": name, "region": mask is not None})
    for place, example in enumerate(finding.examples, 1):
        files: dict[str, Any] = {}
        for what in ("before", "after", "donor"):
            shown = getattr(example, what)
            if isinstance(shown, list):  # the words of a text
                files[what] = shown
                continue
            files[what] = f"{number}_{what}_{place}.png"
            _write_picture(folder / files[what], shown, valid_range)
        told.append(
            {
                "shows": "planting",
                **files,
                "label": classes[example.label],
                "predicted": [name_class(classes, number) for number in example.predicted],
            }
        )
    return told


def _write_picture(path: Path, x: Tensor, valid_range: Sequence[float]) -> None:
    low, high = valid_range
    grey = ((x.float() - low) / (high - low)).clamp(0, 1)
    colours = grey if len(grey) == 3 else grey.mean(dim=0, keepdim=True).expand(3, -1, -1)
    pixels = (255 * colours).round().byte().permute(1, 2, 0).numpy()
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    write_atomically(path, lambda target: target.write(file.getvalue()))
