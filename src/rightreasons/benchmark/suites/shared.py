"""Helpers of all suites: a grid of candidates, and a suite with the paper's figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rightreasons.benchmark.measure import Figures, read_figures
from rightreasons.benchmark.suite import Grid, Suite

__all__ = ["make_grid", "make_suite"]


def make_grid(**settings: Sequence[Any]) -> Grid:
    """Make candidates of a recipe: the first value of each setting, the second of each, and so on.

    Example:
        >>> make_grid(weight=(0.3, 0.1), epsilon=(1.0, 0.5))[1]
        {'settings': {'weight': 0.1, 'epsilon': 0.5}}
    """
    columns = zip(*settings.values(), strict=True)
    return [{"settings": dict(zip(settings, column, strict=True))} for column in columns]


def make_suite(paper: str, name: str, title: str, table: str, **parts: Any) -> Suite:
    """Make a suite of this package, with the paper's figures from ``NAME.yaml`` in this folder.

    Args:
        paper: Key in the bibliography.
        name: Name on the command line.
        title: Title of the table.
        table: Which table or figure of the paper.
        parts: The other settings of `Suite`.
    """
    path = Path(__file__).parent / f"{name.replace('-', '_')}.yaml"
    figures = read_figures(path) if path.exists() else Figures()
    return Suite(name=name, title=title, paper=paper, table=table, figures=figures, **parts)
