"""What to try next: the step that would say or change most, first."""

from __future__ import annotations

from collections.abc import Sequence

from rightreasons.objectives.recipes import RECIPES
from rightreasons.report.estimate import SEEDS_FOR_AN_INTERVAL
from rightreasons.report.reliance import find_reliance
from rightreasons.report.section import Method, Section

__all__ = ["advise"]

WITH_MASKS = "counterexamples"


def advise(section: Section, judged: Sequence[Method], *, solved: bool) -> tuple[str, ...]:
    """List what to try next.

    Args:
        section: The methods on one data set.
        judged: The methods that learned, the best first.
        solved: Whether the verdict is good.
    """
    findings = {name for record in section.records for name in record.findings}
    steps = []
    if "polarity" in findings:
        steps.append(
            "Look at some masks: they must cover what the model must not look at. If they are "
            "inverted, load them with mask_polarity=relevant."
        )
    if any(not method.learned for method in section.methods):
        steps.append("Lower the weight of the penalty that stopped learning, or set weight=auto.")
    if not solved and judged:
        steps += _steps_for(section, judged[0])
    if min(len(method.seeds) for method in section.methods) < SEEDS_FOR_AN_INTERVAL:
        steps.append(
            "Train every method with three seeds (--seed), and give all runs to the report."
        )
    return tuple(steps)


def _steps_for(section: Section, best: Method) -> list[str]:
    reliance, steps = find_reliance(best), []
    tried = {method.recipe.split(" + ")[0] for method in section.methods}
    reads_mask = any("exchanged" in sign or "swapped" in sign for sign in reliance.signs)
    has_masks = reliance.area is not None or reliance.swapped_on
    if (reliance.signs or _is_low(best)) and has_masks:
        if WITH_MASKS in RECIPES and WITH_MASKS not in tried:
            steps.append(f"Train with --recipe {WITH_MASKS}: other content where the masks are.")
        elif reads_mask:
            steps.append("See whether the masks cover the whole shortcut, then train longer.")
    if not has_masks and reliance.signs:
        steps.append("Mark what the worst group has in common (rightreasons annotate).")
    if reliance.gap and not reliance.signs:
        steps.append(
            "Look at the errors in the worst group. If they share something no mask covers, mask "
            "it too (rightreasons annotate); group_dro needs the groups alone."
        )
    if not reliance.probes:
        steps.append("Mark what must not matter in some images (rightreasons annotate).")
    elif len(reliance.probes) == 1:
        steps.append(
            "Measure in a second way: test data with groups in which the shortcut breaks, or masks "
            "with --metrics swap_accuracy,input_gradient_mass."
        )
    return steps


def _is_low(method: Method) -> bool:
    worst, classes = method.estimate("group_accuracy/worst"), method.first.card.classes
    return worst is not None and len(classes) > 1 and worst.value < 1 / len(classes)
