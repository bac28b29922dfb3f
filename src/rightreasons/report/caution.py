"""Cautions, the limits of a comparison, and advice: what to try next."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rightreasons.objectives.recipes import RECIPES
from rightreasons.report.estimate import SEEDS_FOR_AN_INTERVAL
from rightreasons.report.reliance import find_reliance
from rightreasons.report.section import Method, Section
from rightreasons.report.wording import format_value, join_names
from rightreasons.run.config import AS_IT_IS

__all__ = ["advise", "list_cautions"]

SMALL_GROUP = 30
WITH_MASKS = "counterexamples"


def list_cautions(section: Section) -> tuple[str, ...]:
    """List everything a careful reader should know, the most serious first."""
    return tuple(text for rule in RULES for text in rule(section))


def _not_learned(section: Section) -> list[str]:
    messages = []
    for method in section.methods:
        for record in method.records:
            if not record.learned:
                message = str(record.part("diagnosis").get("message", "The model did not learn."))
                messages.append(f"{method.label}, seed {record.seed}: {message}")
    return messages


def _found(section: Section) -> list[str]:
    """What the diagnosis found in a model that learned, once for each method."""
    messages = []
    for method in section.methods:
        found = [record for record in method.records if record.learned and record.findings]
        if found:
            seeds = f"in {len(found)} of {len(method.records)} seeds, first seed {found[0].seed}"
            which = seeds if len(method.records) > 1 else "diagnosis of its training"
            message = str(found[0].part("diagnosis").get("message", "")).replace("`", "")
            messages.append(f"{method.label}, {which}: {message}")
    return messages


def _other_data(section: Section) -> list[str]:
    digests = {
        frozenset(str(record.results.get("data_sha256")) for record in method.records)
        for method in section.methods
    }
    if len(digests) < 2 or _other_seeds(section):  # other seeds draw other samples
        return []
    return ["The methods did not all see the same samples: their data hashes differ."]


def _other_settings(section: Section) -> list[str]:
    """Facts that differ between methods, apart from the settings of their recipes."""
    expected = {name for method in section.methods for name in method.first.part("settings")}
    for method in section.methods:
        expected |= {f"strategy {name}" for name in method.first.part("strategy_settings")}
    trained = [method for method in section.methods if method.recipe != AS_IT_IS]
    names = {name: None for method in trained for name in method.facts if name not in expected}
    differing = []
    for name in names:
        values = {format_value(method.facts.get(name)): None for method in trained}
        if len(values) > 1:
            differing.append(f"{name} ({' or '.join(values)})")
    return (
        [f"The methods differ in more than their recipe: {', '.join(differing)}."]
        if differing
        else []
    )


def _few_seeds(section: Section) -> list[str]:
    single = [method.label for method in section.methods if len(method.records) == 1]
    if not single:
        return []
    who = "Every method" if len(single) == len(section.methods) else join_names(single)
    if len(section.methods) == 1:
        who = "The model"
    was = "was" if len(single) in (1, len(section.methods)) else "were"
    return [f"{who} {was} trained with one seed only; another seed may give other numbers."]


def _other_seeds(section: Section) -> list[str]:
    if len({method.seeds for method in section.methods}) < 2:
        return []
    listed = [f"{method.label} {', '.join(map(str, method.seeds))}" for method in section.methods]
    return [f"The methods were trained with different seeds: {'; '.join(listed)}."]


def _repeated(section: Section) -> list[str]:
    return [
        f"{record.folder.name} repeats {method.label} with seed {record.seed} and is not counted."
        for method in section.methods
        for record in method.repeated
    ]


def _selection(section: Section) -> list[str]:
    chosen = [m.label for m in section.methods if m.facts["select"] == "accuracy"]
    if not chosen:
        return []
    return [
        f"The epoch of {join_names(chosen)} was chosen by validation accuracy, which a shortcut "
        "raises where the validation data carry it."
    ]


def _small_groups(section: Section) -> list[str]:
    sizes = [pair for method in section.methods for pair in _group_sizes(method)]
    if not sizes or min(sizes)[0] >= SMALL_GROUP:
        return []
    size, name = min(sizes)
    return [f"The group “{name}” has only {size} test samples, so its accuracy is coarse."]


def _group_sizes(method: Method) -> list[tuple[int, str]]:
    sizes = [(name, method.estimate(f"group_accuracy/{name}/n")) for name in method.group_names]
    return [(round(size.value), name) for name, size in sizes if size is not None]


def _other_versions(section: Section) -> list[str]:
    versions = [dict(record.part("versions")) for record in section.records]
    names = dict.fromkeys(name for packages in versions for name in packages)
    differing = [n for n in names if len({str(packages.get(n)) for packages in versions}) > 1]
    return (
        [f"The runs were made with different versions of {join_names(differing)}."]
        if differing
        else []
    )


RULES: tuple[Callable[[Section], list[str]], ...] = (
    _not_learned,
    _found,
    _other_data,
    _few_seeds,
    _other_seeds,
    _repeated,
    _other_settings,
    _selection,
    _small_groups,
    _other_versions,
)


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
        steps.append(
            "Mark what must not matter in some samples, or search for it (rightreasons audit)."
        )
    elif len(reliance.probes) == 1:
        steps.append(
            "Measure in a second way: test data with groups in which the shortcut breaks, or masks "
            "with --metrics swap_accuracy,input_gradient_mass."
        )
    return steps


def _is_low(method: Method) -> bool:
    worst, classes = method.estimate("group_accuracy/worst"), method.first.card.classes
    return worst is not None and len(classes) > 1 and worst.value < 1 / len(classes)
