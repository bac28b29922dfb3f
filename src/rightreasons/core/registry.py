"""Things that can be asked for by name: recipes, metrics, models and data sets."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from rightreasons.core.checks import check_names
from rightreasons.errors import InvalidSettingError, RightReasonsError, UnknownNameError

__all__ = ["Registry"]

Made = TypeVar("Made")


class Registry(Mapping[str, Callable[..., Made]], Generic[Made]):
    """Names and the functions (or classes) that make what they name.

    A hyphen in a name is an underscore. Unknown names are answered with the nearest ones, unknown
    settings with those there are.

    Args:
        kind: What its members are, for error messages: ``"recipe"``.
        members: Functions with keyword settings, by name.

    Example:
        >>> words = Registry("word", {"hello": lambda *, times=1: "hello " * times})
        >>> words.create("hello", times=2)
        'hello hello '
    """

    def __init__(self, kind: str, members: Mapping[str, Callable[..., Made]]) -> None:
        self.kind = kind
        self._members = dict(members)

    def __getitem__(self, name: str) -> Callable[..., Made]:
        try:
            return self._members[name.replace("-", "_")]
        except KeyError:
            raise UnknownNameError(self.kind, name, self._members) from None

    def get(self, name: str, default: Any = None) -> Any:
        """The function of that name, or ``default``."""
        try:
            return self[name]
        except UnknownNameError:
            return default

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.replace("-", "_") in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._members))

    def __len__(self) -> int:
        return len(self._members)

    def create(self, name: str, *args: Any, **settings: Any) -> Made:
        """Make the thing called ``name`` with these settings."""
        maker = self[name]
        check_names(f"settings of the {self.kind} {name!r}", settings, self.settings(name))
        try:
            return maker(*args, **settings)
        except (TypeError, ValueError) as error:
            if isinstance(error, RightReasonsError):
                raise
            raise InvalidSettingError(
                f"Expected settings the {self.kind} {name!r} can work with, but got {settings}: "
                f"{error}."
            ) from error

    def settings(self, name: str) -> dict[str, Any]:
        """The keyword settings of a member and their defaults."""
        return {
            parameter.name: parameter.default
            for parameter in inspect.signature(self[name]).parameters.values()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        }

    def describe(self) -> dict[str, str]:
        """One line for each member: the first of its docstring."""
        return {
            name: (inspect.getdoc(self._members[name]) or "").split("\n", 1)[0] for name in self
        }
