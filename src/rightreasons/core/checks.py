"""Settings and names: checks that raise an error with the setting's name, and registries."""

from __future__ import annotations

import inspect
import math
import reprlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from rightreasons.errors import (
    InvalidBatchError,
    InvalidSettingError,
    RightReasonsError,
    UnknownNameError,
)

__all__ = [
    "Registry",
    "Settings",
    "check_choice",
    "check_flag",
    "check_floats",
    "check_fraction",
    "check_integer",
    "check_names",
    "check_path",
    "check_range",
    "check_types",
    "check_within",
    "passes_settings_on",
    "positive_float",
    "settings_of",
]

Choice = TypeVar("Choice")
Made = TypeVar("Made")


class Registry(Mapping[str, Callable[..., Made]], Generic[Made]):
    """Functions or classes by name.

    A hyphen in a name counts as an underscore. The error for an unknown name lists the nearest
    names, that for an unknown setting all settings.

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

    def create(self, name: str, /, *args: Any, **settings: Any) -> Made:
        """Call the function ``name`` with these settings."""
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
        """The first line of each member's docstring."""
        return {
            name: (inspect.getdoc(self._members[name]) or "").split("\n", 1)[0] for name in self
        }


def check_choice(name: str, value: object, choices: Collection[Choice]) -> Choice:
    """Give the member of ``choices`` that equals ``value``.

    Example:
        >>> check_choice("colours", "ross", ("ross", "faint"))
        'ross'
    """
    for choice in choices:
        if type(choice) is type(value) and choice == value:
            return choice
    allowed = " or ".join(repr(choice) for choice in choices)
    raise InvalidSettingError(f"Expected `{name}` to be {allowed}, but got {value!r}.")


def check_names(what: str, names: Iterable[str], known: Iterable[str], *, remedy: str = "") -> None:
    """Raise if one of ``names`` is not known.

    Args:
        what: What the names are, for the error message: ``"settings of the recipe 'r3'"``.
        names: The names that were given.
        known: All names there are.
        remedy: Further sentences for the error message.
    """
    allowed = list(known)
    unknown = sorted(set(names) - set(allowed))
    if unknown:
        message = (
            f"Expected {what} among: {', '.join(allowed) or 'none'}; but got {', '.join(unknown)}."
        )
        raise InvalidSettingError(f"{message} {remedy}".rstrip())


def check_flag(name: str, value: object) -> bool:
    """Give ``value`` back if it is True or False."""
    if not isinstance(value, bool):
        raise InvalidSettingError(f"Expected `{name}` to be True or False, but got {value!r}.")
    return value


def check_integer(name: str, value: object, *, low: int = 1, high: int | None = None) -> int:
    """Give ``value`` back if it is an integer from ``low`` to ``high``, both included.

    Example:
        >>> check_integer("patch", 3, low=1, high=4)
        3
    """
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):  # type: ignore[operator]
        span = f"from {low}" if high is None else f"from {low} to {high}"
        raise InvalidSettingError(
            f"Expected `{name}` to be a whole number {span}, but got {value!r}."
        )
    return int(value)  # type: ignore[call-overload, no-any-return]


def check_floats(name: str, value: object, *, least: int = 1) -> list[float]:
    """Give the numbers of a list back as floats; a number alone is a list of one.

    Example:
        >>> check_floats("epsilons", 0.1), check_floats("epsilons", (1, 2))
        ([0.1], [1.0, 2.0])
    """
    members = [value] if isinstance(value, int | float) else value
    try:
        numbers = [_number(member) for member in members]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        numbers = None
    if numbers is None or len(numbers) < least:
        count = f", {least} or more" if least else ""
        raise InvalidSettingError(
            f"Expected `{name}` to be a number or a list of numbers{count}, but got {value!r}."
        )
    return numbers


def _number(value: Any) -> float:
    if isinstance(value, str | bool):  # float() would convert these
        raise TypeError
    return float(value)


def positive_float(name: str, value: object) -> float:
    """Give ``value`` back as a float if it is a finite number above 0."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
        raise InvalidSettingError(
            f"Expected `{name}` to be a finite number above 0, but got {value!r}."
        )
    return float(value)


def check_fraction(name: str, value: object, *, below_one: bool = False) -> float:
    """Give ``value`` back as a float if it is a number from 0 to 1.

    Args:
        name: Name of the setting, for the error message.
        value: The setting.
        below_one: Whether 1 itself is refused.

    Example:
        >>> check_fraction("keep", 1), check_fraction("dropout", 0.5, below_one=True)
        (1.0, 0.5)
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value <= 1 or (below_one and value == 1):  # type: ignore[operator]
        span = "from 0 to below 1" if below_one else "from 0 to 1"
        raise InvalidSettingError(f"Expected `{name}` to be a number {span}, but got {value!r}.")
    return float(value)  # type: ignore[arg-type]


def check_range(valid_range: object) -> tuple[float, float]:
    """Give back the smallest and the largest value of a feature, or raise.

    Example:
        >>> check_range([0, 1])
        (0.0, 1.0)
    """
    try:
        low, high = (float(end) for end in valid_range)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        low = high = 0.0
    if not low < high:
        raise InvalidSettingError(
            "Expected `valid_range` to be a smallest and a largest value, such as (0.0, 1.0), but "
            f"got {valid_range!r}."
        )
    return low, high


def check_within(values: Tensor, valid_range: tuple[float, float] | None) -> None:
    """Raise for values outside the valid range, by more than rounding; None is no limit.

    Example:
        >>> import torch
        >>> check_within(torch.tensor([0.0, 1.0]), (0.0, 1.0))
    """
    if valid_range is None or not len(values):
        return
    low, high = valid_range
    slack = 1e-6 * (high - low)
    smallest, largest = float(values.min()), float(values.max())
    if smallest < low - slack or largest > high + slack:
        raise InvalidBatchError(
            f"Expected values from {low:g} to {high:g}, the valid range, but got {smallest:g} to "
            f"{largest:g}. State the range of the data with `valid_range`, such as on their card: "
            "`InMemory(batch, Card(valid_range=(-2.0, 2.0)))`."
        )


Settings = dict[str, inspect.Parameter]
"""Keyword settings of a function or class, by name."""


def settings_of(function: Callable[..., Any], without: Collection[str] = ()) -> Settings:
    """The keyword-only parameters of a function or of a class's constructor, by name.

    A constructor with ``**settings`` passes them to its base, so those of the base follow.

    Args:
        function: A function or a class.
        without: Names to leave out.
    """
    bases = inspect.getmro(function) if isinstance(function, type) else ()
    constructors = [vars(base)["__init__"] for base in bases if "__init__" in vars(base)]
    settings: Settings = {}
    for constructor in constructors or [function]:
        parameters = inspect.signature(constructor).parameters.values()
        for parameter in parameters:
            if parameter.kind is parameter.KEYWORD_ONLY and parameter.name not in without:
                settings.setdefault(parameter.name, parameter)
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            break
    return settings


def passes_settings_on(function: Callable[..., Any]) -> bool:
    """Whether a function takes any keyword, as a constructor does that passes settings on."""
    parameters = inspect.signature(function).parameters.values()
    return any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)


def check_path(text: str) -> Path:
    """Make a path of a word on the command line; an empty one would be the current folder."""
    if not str(text).strip():
        raise InvalidSettingError(
            "Expected a path, but got an empty word. Name a folder or a file."
        )
    return Path(text)


def check_types(settings: object) -> dict[str, Any]:
    """Raise if a field of a dataclass is of another type than its annotation.

    Returns:
        The values by name. A float without a fraction is a whole number: 3.0 becomes 3.

    Example:
        >>> from rightreasons.training.settings import TrainingSettings
        >>> check_types(TrainingSettings(epochs=3.0))["epochs"]
        3
    """
    values = {}
    for name, (adapter, words) in _types(type(settings)).items():  # type: ignore[arg-type]
        value = getattr(settings, name)
        if words.startswith("a whole number") and type(value) is float and value.is_integer():
            value = int(value)
        option = f" Set it with --{name.replace('_', '-')}." if "number" in words else ""
        try:
            adapter.validate_python(value, strict=True)
        except ValidationError:
            raise InvalidSettingError(
                f"Expected `{name}` to be {words}, but got {reprlib.repr(value)}.{option}"
            ) from None
        if isinstance(value, int) and abs(value) >= LARGEST:
            raise InvalidSettingError(
                f"Expected `{name}` below {LARGEST}, but got {reprlib.repr(value)}.{option}"
            )
        values[name] = value
    return values


LARGEST = 2**62
_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "a word",
    dict: "settings by name",
    list: "a list of names",
    type(None): "None",
}


@cache
def _types(kind: type) -> dict[str, tuple[TypeAdapter[Any], str]]:
    """What checks each field of a dataclass, and words for its type."""
    return {
        name: (TypeAdapter(hint), _words(hint))
        for name, hint in get_type_hints(kind).items()
        if get_origin(hint) is not Literal  # whose error lists the choices
    }


def _words(hint: Any) -> str:
    members = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    return " or ".join(_WORDS.get(get_origin(one) or one, "a function") for one in members)
