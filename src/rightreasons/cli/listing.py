"""Everything that has a name, with one line of description each."""

from rightreasons import benchmark, datasets, models
from rightreasons.errors import UnknownNameError
from rightreasons.explainers import EXPLAINERS
from rightreasons.metrics import METRICS
from rightreasons.objectives.recipes import RECIPES
from rightreasons.strategies import STRATEGIES

__all__ = ["KINDS", "list_names"]

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
