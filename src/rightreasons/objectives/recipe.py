"""How terms become a recipe: a function of keyword settings that gives an `Objective`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from functools import update_wrapper
from types import FunctionType
from typing import Any

from rightreasons.core.checks import settings_of
from rightreasons.objectives.cross_entropy import CrossEntropy, WeightDecay
from rightreasons.objectives.objective import Objective, Term

__all__ = ["erm", "recipe"]

Formula = Callable[..., Objective | Term]
Recipe = Callable[..., Objective]

WEIGHT_DECAY = inspect.Parameter(
    "weight_decay", inspect.Parameter.KEYWORD_ONLY, default=0.0, annotation="float"
)
LAST = {"weight_decay": 1, "class_weights": 2}
"""Settings that stand last in a recipe's signature, in this order."""


def recipe(
    *terms: type[Term], without: Collection[str] = (), **defaults: Any
) -> Callable[[Formula], Recipe]:
    """Make a recipe from a formula, with the settings and defaults of the formula's terms.

    The formula takes terms by position and its own settings, such as ``weight``, by keyword. The
    recipe takes the formula's settings, those of each term and two more:

    - ``weight_decay`` adds `WeightDecay` with this weight; 0 adds none.
    - ``class_weights`` belongs to `CrossEntropy`. A formula without a task of its own gets it
      as its first argument.

    A setting that several terms share has one value for all of them. Settings of the formula do
    not go to the terms.

    Args:
        terms: Classes of the terms, in the order in which the formula takes them.
        without: Settings of the terms that the recipe does not offer.
        defaults: Defaults of the recipe that differ from those of the terms.

    Example:
        >>> from rightreasons.objectives.r3 import R3
        >>> @recipe(R3, norm="l2")
        ... def unsquared_r3(task, r3, *, weight=30.0):
        ...     return task + weight * r3
        >>> unsquared_r3(weight_decay=0.1).weights
        {'cross_entropy': 1.0, 'r3': 30.0, 'weight_decay': 0.1}
        >>> ", ".join(inspect.signature(unsquared_r3).parameters)
        'weight, target, norm, weight_decay, class_weights'
    """
    if not any(term.is_task for term in terms):
        terms, without = (CrossEntropy, *terms), {*without, "label_smoothing"}

    def decorate(formula: Formula) -> Recipe:
        of_formula = settings_of(formula)
        of_term = {term: settings_of(term, without) for term in terms}
        offered = {**of_formula, "weight_decay": WEIGHT_DECAY}
        for settings in of_term.values():
            offered |= settings
        for name, default in defaults.items():
            offered[name] = offered[name].replace(default=default)
        parameters = sorted(offered.values(), key=lambda parameter: LAST.get(parameter.name, 0))
        signature = inspect.Signature(parameters, return_annotation="Objective")

        def build(given: dict[str, Any]) -> Objective:
            try:
                bound = signature.bind(**given)
            except TypeError as error:
                raise TypeError(f"{formula.__name__}() {error}") from None
            bound.apply_defaults()
            value = bound.arguments
            built = [term(**{name: value[name] for name in of_term[term]}) for term in terms]
            factors = {name: value[name] for name in of_formula}
            objective = formula(*built, **factors).as_objective()
            weight_decay = value["weight_decay"]
            return objective + weight_decay * WeightDecay() if weight_decay else objective

        def call(**settings: Any) -> Objective:
            return build(settings)

        # doctest reads the examples of a module's functions only if they have the module's globals,
        # so the recipe is `call` with the globals of the formula.
        function = FunctionType(call.__code__, formula.__globals__, closure=call.__closure__)
        update_wrapper(function, formula, ("__module__", "__name__", "__qualname__", "__doc__"))
        function.__signature__ = signature  # type: ignore[attr-defined]
        return function

    return decorate


@recipe(CrossEntropy)
def erm(task: CrossEntropy) -> Term:
    """Empirical risk minimisation: cross-entropy alone, the baseline.

    Example:
        >>> erm().weights
        {'cross_entropy': 1.0}
    """
    return task
