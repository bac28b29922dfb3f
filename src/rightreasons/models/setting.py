"""Checks of the settings that all models share: counts, factors and choices."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TypeVar

from rightreasons.errors import InvalidSettingError

__all__ = ["check_choice", "check_count", "check_factor", "check_share"]

T = TypeVar("T")


def check_count(name: str, value: object, *, at_least: int = 1) -> int:
    """Give ``value`` back if it is a whole number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise InvalidSettingError(
            f"Expected `{name}` to be a whole number of at least {at_least}, but got {value!r}."
        )
    return value


def check_factor(name: str, value: object) -> float:
    """Give ``value`` back as a float if it is a finite number above 0."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
        raise InvalidSettingError(
            f"Expected `{name}` to be a finite number above 0, but got {value!r}."
        )
    return float(value)


def check_share(name: str, value: object) -> float:
    """Give ``value`` back as a float if it is a number from 0 to below 1."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1:
        raise InvalidSettingError(
            f"Expected `{name}` to be a number from 0 to below 1, but got {value!r}."
        )
    return float(value)


def check_choice(name: str, value: object, choices: Collection[T]) -> T:
    """Give the member of ``choices`` that equals ``value``."""
    for choice in choices:
        if choice == value and type(choice) is type(value):
            return choice
    raise InvalidSettingError(
        f"Expected `{name}` to be one of {tuple(choices)}, but got {value!r}."
    )
