"""What a reader of a suite's table must know beside the numbers."""

from __future__ import annotations

from collections.abc import Sequence

from rightreasons.benchmark.cell import in_words
from rightreasons.benchmark.compared_line import ComparedLine
from rightreasons.benchmark.measure import higher_is_better
from rightreasons.benchmark.suite import Budget, Suite, Threshold

__all__ = ["notes_on"]


def notes_on(suite: Suite, budget: str, lines: Sequence[ComparedLine]) -> list[str]:
    """How settings were chosen, what was spent, and what differs from the paper."""
    spent = suite.budget(budget)
    words = in_words(spent.overrides)
    versions = sorted({run["versions"]["rightreasons"] for one in lines for run in one.results})
    return [
        *_titles(suite),
        *_choosing(suite, spent, lines),
        *_borrowing(suite),
        "Ours: mean ± sample standard deviation over n runs, one a seed "
        f"({', '.join(map(str, spent.seeds))}).",
        *([f"Budget {budget}: {words}."] if words else []),
        *_source(suite),
        *suite.protocol,
        *spent.protocol,
        *([f"Runs of several versions: {', '.join(versions)}."] if len(versions) > 1 else []),
    ]


def _titles(suite: Suite) -> list[str]:
    """In the other layout they stand in headings."""
    titled = suite.variants if suite.layout == "columns" else ()
    return [f"{variant.name}: {variant.title}." for variant in titled if variant.title]


def _choosing(suite: Suite, budget: Budget, lines: Sequence[ComparedLine]) -> list[str]:
    counts = sorted({one.line.num_candidates for one in lines})
    if counts[-1] == 1:
        return []
    return [
        f"Settings are chosen by {suite.select_by} on validation data at {_compared_at(budget)}, "
        f"among {' or '.join(map(str, counts))} candidates for every method; "
        f"{_ties(suite)}of equals the first. Test data take no part in it.",
        *_thresholds(suite),
    ]


def _compared_at(budget: Budget) -> str:
    seeds = budget.seeds[: budget.seeds_of_choice]
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {', '.join(map(str, seeds))} (mean)"


def _ties(suite: Suite) -> str:
    if not suite.ties_within:
        return ""
    number = "one" if suite.ties_within == 1 else f"{suite.ties_within:g}"
    errors = f"{number} standard error{'' if suite.ties_within == 1 else 's'}"
    return f"candidates within {errors} of the best count as its equals, and "


def _thresholds(suite: Suite) -> list[str]:
    told: dict[Threshold, list[str]] = {}
    for variant in suite.variants:
        threshold = suite.threshold(variant)
        if threshold is not None and variant.chosen_in is None:
            told.setdefault(threshold, []).append(variant.name)
    return [
        f"In {', '.join(names)} only candidates with {key} of at "
        f"{'least' if higher_is_better(key.split('/')[0]) else 'most'} {bound:g} on validation "
        "data are chosen among; if there is none, the one that comes nearest is taken."
        for (key, bound), names in told.items()
    ]


def _borrowing(suite: Suite) -> list[str]:
    told: dict[str, list[str]] = {}
    for variant in suite.variants:
        if variant.chosen_in is not None:
            told.setdefault(variant.chosen_in, []).append(variant.name)
    return [
        f"Settings are not chosen anew in {', '.join(names)}: they are those chosen in {source}."
        for source, names in told.items()
    ]


def _source(suite: Suite) -> list[str]:
    if not suite.figures.source:
        return []
    where = ", in square brackets" if suite.layout == "columns" else ""
    return [f"The paper's figures{where}: {suite.figures.source}."]
