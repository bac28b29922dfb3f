"""Numbers, settings and lists of names as text for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from rightreasons.report.estimate import Estimate

__all__ = [
    "duration",
    "format_value",
    "interval",
    "join_names",
    "percent",
    "plain_text",
    "points",
    "quantity",
    "render_template",
    "settings",
    "spread",
]

THIN_SPACE = "\u202f"
MINUS = "\u2212"


def percent(share: float) -> str:
    """A fraction in per cent, with one decimal.

    Example:
        >>> percent(0.77812).replace(THIN_SPACE, " ")
        '77.8 %'
    """
    return f"{_signed(100 * share, '.1f')}{THIN_SPACE}%"


def points(difference: float) -> str:
    """A difference of fractions, in percentage points.

    Example:
        >>> points(0.3479)
        '34.8 points'
    """
    return f"{_signed(100 * difference, '.1f')} points"


def quantity(value: float, *, is_share: bool) -> str:
    """A fraction in per cent, any other number with three digits."""
    return percent(value) if is_share else _signed(value, ".3g")


def interval(estimate: Estimate, *, is_share: bool) -> str:
    """The interval from low to high, without the unit; empty if there is none."""
    if estimate.low is None or estimate.high is None:
        return ""
    scale, digits = (100, ".1f") if is_share else (1, ".3g")
    return f"{_signed(scale * estimate.low, digits)} to {_signed(scale * estimate.high, digits)}"


def spread(estimate: Estimate, *, is_share: bool) -> str:
    """The standard deviation over seeds; empty for a single seed."""
    if estimate.deviation is None:
        return ""
    scale, digits = (100, ".1f") if is_share else (1, ".2g")
    return f"±{THIN_SPACE}{scale * estimate.deviation:{digits}}"


def duration(seconds: float) -> str:
    """A duration in seconds, minutes or hours.

    Example:
        >>> duration(0.43), duration(95), duration(7300)
        ('0.4 s', '1 min 35 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def settings(values: Mapping[str, object]) -> str:
    """Settings as ``name=value``, separated by commas.

    Example:
        >>> settings({"weight": 30.0, "norm": "l1"})
        'weight=30, norm=l1'
    """
    return ", ".join(f"{name}={format_value(value)}" for name, value in values.items())


def format_value(value: object) -> str:
    """The text of one setting's value."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(format_value(entry) for entry in value) + ")"
    return "none" if value is None else str(value)


def join_names(names: Sequence[str]) -> str:
    """Join names for a sentence.

    Example:
        >>> join_names(["erm", "r3", "group_dro"])
        'erm, r3 and group_dro'
    """
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def plain_text(text: str) -> str:
    """The text with plain spaces and signs, for terminals and programs.

    Example:
        >>> plain_text(percent(-0.5))
        '-50.0 %'
    """
    return text.replace(THIN_SPACE, " ").replace(MINUS, "-")


def render_template(name: str, **values: Any) -> str:
    """Render a template of this package; a value that is missing is an error."""
    environment = Environment(
        loader=PackageLoader("rightreasons.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name).render(**values)


def _signed(value: float, digits: str) -> str:
    text = f"{value:{digits}}"
    if float(text) == 0:
        text = text.lstrip("-")
    return text.replace("-", MINUS, 1) if text.startswith("-") else text
