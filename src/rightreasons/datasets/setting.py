"""Checks of the settings that data sets take, one message for each kind of mistake."""

from collections.abc import Sequence

from rightreasons.errors import InvalidSettingError

__all__ = ["checked_choice", "checked_flag", "checked_number"]


def checked_choice(name: str, value: object, choices: Sequence[str]) -> str:
    """Give ``value`` back if it is one of ``choices``.

    Example:
        >>> checked_choice("colours", "ross", ("ross", "faint"))
        'ross'
    """
    if not isinstance(value, str) or value not in choices:
        allowed = " or ".join(repr(choice) for choice in choices)
        raise InvalidSettingError(f"Expected `{name}` to be {allowed}, but got {value!r}.")
    return value


def checked_flag(name: str, value: object) -> bool:
    """Give ``value`` back if it is True or False."""
    if not isinstance(value, bool):
        raise InvalidSettingError(f"Expected `{name}` to be True or False, but got {value!r}.")
    return value


def checked_number(name: str, value: object, *, low: int, high: int | None = None) -> int:
    """Give ``value`` back if it is an integer from ``low`` to ``high``, both included.

    Example:
        >>> checked_number("patch", 3, low=1, high=4)
        3
    """
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):  # type: ignore[operator]
        span = f"from {low}" if high is None else f"from {low} to {high}"
        raise InvalidSettingError(
            f"Expected `{name}` to be a whole number {span}, but got {value!r}."
        )
    return int(value)  # type: ignore[call-overload, no-any-return]
