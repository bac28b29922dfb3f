"""Which candidate a method goes on with: the best on validation data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rightreasons.benchmark.measure import higher_is_better
from rightreasons.benchmark.store import Row
from rightreasons.benchmark.suite import Suite, Threshold
from rightreasons.errors import InvalidSettingError

__all__ = ["Choice", "choose"]

ENDS = ("low", "high")


@dataclass(frozen=True)
class Choice:
    """Which candidate a method goes on with.

    Args:
        decided: Whether all candidates are finished.
        candidate: The number of the chosen one; None if undecided, or if all failed.
        value: What it reached on validation data; None if there was nothing to choose.
        fell_short: Whether no candidate reached the suite's threshold, so that the one that came
            nearest was chosen.
    """

    decided: bool
    candidate: int | None = None
    value: float | None = None
    fell_short: bool = False


def choose(
    suite: Suite, rows: Sequence[Sequence[Row | None]], threshold: Threshold | None = None
) -> Choice:
    """Choose among candidates by their rows; of equals, see `Suite.ties_within`, the first.

    A candidate's value is the mean of its rows. One with a failed row is never chosen, nor one
    with a value that is not a finite number.

    Args:
        suite: Says by what to choose.
        rows: Of each candidate, in their order, one a seed; None is not finished.
        threshold: A key and what it must reach to be chosen among.
    """
    finished = [[row for row in each if row is not None] for each in rows]
    if any(len(found) < len(each) for found, each in zip(finished, rows, strict=True)):
        return Choice(decided=False)
    keys = [suite.select_by, *([threshold[0]] if threshold is not None else [])]
    measured = {
        number: [_mean(_validation_value(suite, row, key) for row in each) for key in keys]
        for number, each in enumerate(finished)
        if not any(row.failure for row in each)
    }
    finite = {
        number: [value for value in values if value is not None]
        for number, values in measured.items()
        if None not in values
    }
    if not finite:
        return Choice(decided=True)
    by, fell_short, allowed = 0, False, finite
    if threshold is not None:
        bound = _signed(*threshold)
        allowed = {n: v for n, v in finite.items() if _signed(threshold[0], v[1]) >= bound}
        fell_short = not allowed
        by, allowed = (1, finite) if fell_short else (0, allowed)
    best = max(allowed, key=lambda number: _signed(keys[by], allowed[number][by]))
    if suite.ties_within and not fell_short:
        slack = suite.ties_within * _standard_error(suite, finished[best])
        lowest = _signed(keys[0], allowed[best][0]) - slack
        best = next(n for n, v in allowed.items() if _signed(keys[0], v[0]) >= lowest)
    return Choice(decided=True, candidate=best, value=finite[best][0], fell_short=fell_short)


def _signed(key: str, value: float) -> float:
    """More is better."""
    return value if higher_is_better(key.split("/")[0]) else -value


def _standard_error(suite: Suite, rows: Sequence[Row]) -> float:
    """By the 95 % intervals of what is chosen by: of one row, or of the mean of several."""
    errors = []
    for row in rows:
        low, high = (_validation_value(suite, row, f"{suite.select_by}/{end}") for end in ENDS)
        errors.append(0.0 if low is None or high is None else (high - low) / (2 * 1.959964))
    return math.hypot(*errors) / len(errors)


def _mean(values: Iterable[float | None]) -> float | None:
    known = list(values)
    finite = [value for value in known if value is not None]
    return math.fsum(finite) / len(finite) if len(finite) == len(known) else None


def _validation_value(suite: Suite, row: Row, key: str) -> float | None:
    measured: dict[str, float | None] = row.results["metrics"].get("validation", {})
    if key not in measured:
        raise InvalidSettingError(
            f"Expected the suite {suite.name!r} to choose by a measure of the validation data, "
            f"but {key!r} is not among them: "
            f"{', '.join(measured) or 'there are no validation data'}. Add it to `metrics`, or "
            "choose by another."
        )
    return measured[key]
