"""The content of an export: images, their marked shapes, and values that know their place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from rightreasons.core.files import Unreadable, read_json
from rightreasons.datasets.annotations.raster import Mask, Points
from rightreasons.errors import DatasetCorruptError

__all__ = [
    "BadExport",
    "Drawn",
    "Export",
    "Shape",
    "Value",
    "raise_problems",
    "read_json_value",
    "refuse_shape",
]

LARGEST_NUMBER = 1e9
MAX_LINES = 30


class BadExport(ValueError):  # noqa: N818 - the importer turns it into an error of its own
    """What is wrong in an export: a place and a sentence without a full stop."""


@dataclass(frozen=True)
class Shape:
    """One marked region.

    Args:
        labels: Its labels; tools for several labels give several.
        kind: The tool's word for the shape, such as ``"polygon"``.
        place: Where it stands in the file.
        draw: Function from height and width to a mask; it may raise a ValueError.
    """

    labels: tuple[str, ...]
    kind: str
    place: str
    draw: Callable[[tuple[int, int]], Mask]


@dataclass(frozen=True)
class Drawn:
    """One person's shapes on one image.

    Args:
        image: The image's name, as the tool knows it.
        size: Height and width that the tool saw; None if it does not say.
        shapes: The marked regions.
        place: Where the image stands in the file.
    """

    image: str
    size: tuple[int, int] | None
    shapes: tuple[Shape, ...]
    place: str


@dataclass
class Export:
    """Everything that one file says.

    Args:
        drawn: What people drew.
        problems: One line for everything that cannot be read.
        ignored: What is no region, by its kind: counts.
    """

    drawn: list[Drawn] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    ignored: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Append a `BadExport` to the problems instead of raising it."""
        try:
            yield
        except BadExport as error:
            self.problems.append(str(error))

    def ignore(self, kind: str) -> None:
        """Count something that is no region."""
        self.ignored[kind] = self.ignored.get(kind, 0) + 1


class Value:
    """A value of a JSON file with its place in it; every check raises with this place.

    Args:
        content: The value.
        place: Its place, such as ``images[3].width``.
    """

    def __init__(self, content: Any, place: str) -> None:
        self.content = content
        self.place = place

    def __getitem__(self, key: str | int) -> Value:
        inner = self.find(key)
        if inner is None:
            raise BadExport(f"{self.place}: has no {key!r}")
        return inner

    def find(self, key: str | int) -> Value | None:
        """The value of a key or an index; None if it is missing or null."""
        place = f"{self.place}[{key}]" if isinstance(key, int) else f"{self.place}.{key}"
        if isinstance(key, int):
            members = self._check(list, "a list")
            found = members[key] if key < len(members) else None
        else:
            found = self._check(dict, "an object").get(key)
        return None if found is None else Value(found, place)

    def mapping(self) -> dict[str, Any]:
        """The bare contents of an object."""
        contents: dict[str, Any] = self._check(dict, "an object")
        return contents

    def members(self) -> list[Value]:
        """The members of a list."""
        members = self._check(list, "a list")
        return [Value(member, f"{self.place}[{n}]") for n, member in enumerate(members)]

    def text(self) -> str:
        """The value as a text that is not empty."""
        if not self._check(str, "a text").strip():
            raise BadExport(f"{self.place}: is an empty text")
        return str(self.content)

    def name(self) -> str:
        """The value as a name or a number."""
        if isinstance(self.content, int) and not isinstance(self.content, bool):
            return str(self.content)
        return self.text()

    def number(self) -> float:
        """The value as a finite number."""
        number = self.content
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise self._wrong("a number")
        if not math.isfinite(number) or abs(number) > LARGEST_NUMBER:
            raise self._wrong(f"a number below {LARGEST_NUMBER:g}")
        return float(number)

    def integer(self, low: int = 0) -> int:
        """The value as a whole number."""
        number = self.number()
        if number != int(number) or number < low:
            raise self._wrong(f"a whole number from {low}")
        return int(number)

    def points(self) -> Points:
        """A list of pairs as an array ``(n, 2)``."""
        pairs = [member.members() for member in self.members()]
        for pair, member in zip(pairs, self.members(), strict=True):
            if len(pair) != 2:
                raise BadExport(f"{member.place}: has {len(pair)} numbers, expected x and y")
        return np.array([[one.number() for one in pair] for pair in pairs]).reshape(-1, 2)

    def size(self, height: str, width: str) -> tuple[int, int]:
        """Height and width, from two keys."""
        return self[height].integer(low=1), self[width].integer(low=1)

    def _check(self, kind: type, words: str) -> Any:
        if not isinstance(self.content, kind):
            raise self._wrong(words)
        return self.content

    def _wrong(self, words: str) -> BadExport:
        got = "null" if self.content is None else repr(self.content)
        return BadExport(f"{self.place}: expected {words}, but got {got[:40]}")


def read_json_value(path: Path) -> Value:
    """Read a JSON file; the root's place is the name of the file."""
    try:
        return Value(read_json(path), path.name)
    except FileNotFoundError:
        raise BadExport(f"{path.name}: no such file") from None
    except Unreadable as error:
        raise BadExport(f"{path.name}: is no JSON in UTF-8 ({error})") from error


def refuse_shape(kind: str, words: str) -> Callable[[tuple[int, int]], Mask]:
    """A function that refuses to draw a shape, for when it is asked for."""

    def draw(size: tuple[int, int]) -> Mask:
        del size
        raise ValueError(f"is a {kind}, {words}")

    return draw


def raise_problems(problems: list[str], files: Sequence[str | PathLike[str]]) -> None:
    """Raise if there are problems; one line each."""
    if problems:
        more = len(problems) - MAX_LINES
        lines = problems[:MAX_LINES] + ([f"… and {more} more"] if more > 0 else [])
        listing = "\n".join(f"  {line[:300]}" for line in lines)
        names = ", ".join(Path(file).name for file in files)
        raise DatasetCorruptError(
            f"Expected {names} to be read in full, but got {len(problems)} "
            f"problem{'s' if len(problems) > 1 else ''}, and nothing is written:\n{listing}"
        )
