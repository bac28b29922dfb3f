"""Settings and names as people write them on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import yaml

from rightreasons.errors import InvalidSettingError

__all__ = ["named", "settings_of"]


def settings_of(pairs: Sequence[str] | None) -> dict[str, Any]:
    """Settings from ``name=value`` pairs.

    Example:
        >>> settings_of(["step-size=1e-4", "hidden=[8, 8]"])
        {'step_size': 0.0001, 'hidden': [8, 8]}
    """
    settings = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InvalidSettingError(f"Expected a setting as name=value, but got {pair!r}.")
        settings[name.replace("-", "_")] = _value(pair, value)
    return settings


def named(text: str | None) -> list[str] | None:
    """Names with commas between them; None if there are none.

    Example:
        >>> named("accuracy, rps")
        ['accuracy', 'rps']
    """
    return [name.strip() for name in text.split(",") if name.strip()] if text else None


def _value(pair: str, text: str) -> Any:
    for number in (int, float):  # YAML takes 1e-4 for a word
        with suppress(ValueError):
            return number(text)
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidSettingError(
            f"Expected a number, a word or a list such as [1, 2] after =, but got {pair!r}."
        ) from error
