"""The tiles under the verdict: the few numbers it rests on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rightreasons.report.reliance import reliance_of
from rightreasons.report.section import Method
from rightreasons.report.wording import percent, points

__all__ = ["Entry", "Tile", "tiles_of"]


@dataclass(frozen=True)
class Entry:
    """One method's number.

    Args:
        label: Of the method.
        colour: Number of its colour.
        value: As written.
    """

    label: str
    colour: int
    value: str


@dataclass(frozen=True)
class Tile:
    """One number of every method compared.

    Args:
        title: What it is.
        higher_is_better: Which way is better.
        entries: One for each method.
    """

    title: str
    higher_is_better: bool
    entries: tuple[Entry, ...]


def tiles_of(methods: Sequence[Method]) -> list[Tile]:
    """The tiles for which every method has a number."""
    made = [
        _tile("Right in the worst group", True, methods, _share("group_accuracy/worst")),
        _tile("Right over all samples", True, methods, _share("accuracy")),
        _tile("Gradient inside the mask", False, methods, _share("input_gradient_mass")),
        _tile("Lost when the masked part is exchanged", False, methods, _lost),
        _tile("Proved not to change with the masked part", True, methods, _proved),
    ]
    return [tile for tile in made if tile is not None]


def _tile(
    title: str,
    higher_is_better: bool,
    methods: Sequence[Method],
    value: Callable[[Method], str | None],
) -> Tile | None:
    values = [(method, value(method)) for method in methods]
    entries = [Entry(m.label, m.colour, told) for m, told in values if told is not None]
    if not entries or len(entries) < len(methods):
        return None
    return Tile(title, higher_is_better, tuple(entries))


def _share(key: str) -> Callable[[Method], str | None]:
    def value(method: Method) -> str | None:
        estimate = method.estimate(key)
        return None if estimate is None else percent(estimate.value)

    return value


def _lost(method: Method) -> str | None:
    reliance = reliance_of(method)
    if reliance.before is None or reliance.after is None:
        return None
    return points(reliance.before - reliance.after)


def _proved(method: Method) -> str | None:
    """The smallest share over seeds; what is proved for one seed only is not the method's."""
    certificates = [record.certificate for record in method.records]
    shares = [None if c is None else c.summary["shares"]["verified"] for c in certificates]
    known = [share for share in shares if share is not None]
    return percent(min(known)) if known and len(known) == len(shares) else None
