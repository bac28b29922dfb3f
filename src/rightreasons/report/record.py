"""What a run left in its folder, read without its model or its data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rightreasons.certification import Certificate, model_digest
from rightreasons.core.arrays import read_arrays
from rightreasons.core.files import JSON_BYTES, Unreadable, check_file, load_tensors, parse_json
from rightreasons.datasets import Card
from rightreasons.errors import InvalidSettingError, RightReasonsError, RunNotFoundError
from rightreasons.run.config import Config
from rightreasons.run.run import load_run

__all__ = ["Record", "read_record", "read_records"]

_WORDS = ("name", "description", "source", "licence", "shortcut")


@dataclass(frozen=True, eq=False)
class Record:
    """The saved results of a finished run.

    Args:
        folder: Folder of the run.
        config: Configuration of the run.
        results: Content of ``results.json``.
        history: One row for each epoch; empty if there is no log.
        examples: Test samples with mask, prediction and input gradient; empty if there are none.
        certificate: Certificate of the run's weights, if there is one.
    """

    folder: Path
    config: Config
    results: Mapping[str, Any]
    history: tuple[Mapping[str, Any], ...] = ()
    examples: Mapping[str, NDArray[Any]] | None = None
    certificate: Certificate | None = None

    @cached_property
    def card(self) -> Card:
        """The data set's card."""
        values = self.part("card")
        words: dict[str, Any] = {name: str(values[name]) for name in _WORDS if name in values}
        valid = _as_tuple(values.get("valid_range"), float)
        return Card(
            **{"name": str(self.results["data"]), **words},
            classes=_as_tuple(values.get("classes"), str),
            groups=_as_tuple(values.get("groups"), str),
            shape=_as_tuple(values.get("shape"), int),
            train_group_counts=_as_tuple(values.get("train_group_counts"), int),
            valid_range=(valid[0], valid[1]) if len(valid) == 2 else (0.0, 1.0),
        )

    @property
    def seed(self) -> int:
        """Random seed of the training."""
        return int(self.results["seed"])

    @property
    def data_seed(self) -> object:
        """Random seed of the data."""
        return self.part("data_settings").get("seed", self.seed)

    @property
    def learned(self) -> bool:
        """Whether the model learned, as far as the run can tell."""
        return bool(self.part("diagnosis").get("learned", True))

    @property
    def findings(self) -> tuple[str, ...]:
        """Names of what the diagnosis of the training found; empty in older runs."""
        found = self.part("diagnosis").get("findings")
        return tuple(str(name) for name in found) if isinstance(found, list) else ()

    def part(self, name: str) -> Mapping[str, Any]:
        """A part of the results that is a mapping; empty if they lack it."""
        value: Mapping[str, Any] = self.results.get(name) or {}
        return value

    def metrics(self, part: str = "test") -> dict[str, float]:
        """The finite numbers measured on one part of the data."""
        measured = self.results["metrics"].get(part)
        pairs = measured.items() if isinstance(measured, dict) else ()
        return {name: float(value) for name, value in pairs if _is_finite(value)}


def read_records(folders: Sequence[str | Path]) -> list[Record]:
    """Read finished runs, each folder once; one error lists all that cannot be read."""
    if isinstance(folders, (str, Path)) or not len(folders):
        raise InvalidSettingError(
            f"Expected `runs` to be at least one folder of a run, but got {folders!r}. Name the "
            "folders that `rightreasons train ... --out` wrote."
        )
    records, problems = [], []
    for folder in {Path(folder).resolve(): Path(folder) for folder in folders}.values():
        try:
            records.append(read_record(folder))
        except RightReasonsError as error:
            problems.append(error)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        listed = "\n".join(f"- {problem}" for problem in problems)
        raise RunNotFoundError(
            f"Expected {len(folders)} finished runs, but {len(problems)} cannot be read:\n{listed}"
        )
    return records


def read_record(folder: str | Path) -> Record:
    """Read a finished run; a missing log or missing examples are no fault."""
    path = Path(folder)
    run = load_run(path)
    kept = (_history(path), _examples(path), _certificate(path))
    return Record(path, run.config, run.results, *kept)


def _history(path: Path) -> tuple[Mapping[str, Any], ...]:
    rows = []
    try:
        check_file(path / "log.jsonl", limit=JSON_BYTES)
        lines = (path / "log.jsonl").read_text(errors="replace").splitlines()
    except (OSError, Unreadable):
        return ()
    for line in lines:
        try:
            row = parse_json(line)
        except Unreadable:  # a line cut short when the run was killed
            continue
        if isinstance(row, dict) and _is_finite(row.get("epoch")):
            rows.append(row)
    return tuple(rows)


def _examples(path: Path) -> Mapping[str, NDArray[Any]] | None:
    try:
        return read_arrays(path / "examples.npz")
    except (OSError, Unreadable):
        return None


def _certificate(path: Path) -> Certificate | None:
    """The run's certificate, unless the weights changed since or nobody certified them."""
    try:
        check_file(path / "certificate.json", limit=JSON_BYTES)
        certificate = Certificate.from_json(path / "certificate.json")
        digest = model_digest(load_tensors(path / "model.safetensors"))
    except (OSError, RightReasonsError, Unreadable):
        return None
    return certificate if certificate.model_sha256 == digest else None


def _as_tuple(values: object, kind: type) -> tuple[Any, ...]:
    try:
        return tuple(kind(value) for value in values) if isinstance(values, list) else ()
    except (TypeError, ValueError):
        return ()


def _is_finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
