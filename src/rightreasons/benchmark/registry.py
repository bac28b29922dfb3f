"""Suites by name."""

from __future__ import annotations

from rightreasons.benchmark import suites
from rightreasons.benchmark.suite import Suite
from rightreasons.core.checks import Registry

__all__ = ["SUITES", "describe", "find_suite"]

SUITES: Registry[Suite] = Registry(
    "suite", {name: getattr(suites, name) for name in suites.__all__}
)


def describe() -> dict[str, str]:
    """One line for each suite."""
    return SUITES.describe()


def find_suite(suite: Suite | str) -> Suite:
    """The suite of this name; a suite is itself."""
    return SUITES.create(suite) if isinstance(suite, str) else suite
