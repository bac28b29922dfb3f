"""Everything that has a name, with one line of description each."""

from typing import Annotated

import typer

from rightreasons import benchmark, datasets, models
from rightreasons.cli.options import AsJson, print_result
from rightreasons.errors import UnknownNameError
from rightreasons.explainers import EXPLAINERS
from rightreasons.metrics import METRICS
from rightreasons.objectives.recipes import RECIPES
from rightreasons.strategies import STRATEGIES

__all__ = ["KINDS", "list_names", "print_names"]

KINDS = {
    "recipes": RECIPES.describe,
    "strategies": STRATEGIES.describe,
    "metrics": METRICS.describe,
    "data": datasets.describe,
    "models": models.describe,
    "explainers": EXPLAINERS.describe,
    "suites": benchmark.describe,
}


def list_names(kind: str | None = None) -> dict[str, dict[str, str]]:
    """Names and descriptions of one kind, such as ``"recipes"``, or of all.

    Example:
        >>> list_names("recipes")["recipes"]["erm"]
        'Empirical risk minimisation: cross-entropy alone, the baseline.'
    """
    if kind is not None and kind not in KINDS:
        raise UnknownNameError("list", kind, KINDS)
    return {name: describe() for name, describe in KINDS.items() if kind in (None, name)}


def print_names(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="recipes, strategies, metrics, data, models, explainers or suites; else all."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List recipes, metrics, data sets and everything else that has a name."""
    names = list_names(kind)
    tables = [([title, ""], [[*pair] for pair in lines.items()]) for title, lines in names.items()]
    print_result(names, tables, as_json)
