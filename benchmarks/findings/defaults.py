"""Numbers and tables of docs/results/defaults.md and benchmarks/results/defaults/tables.md."""

from collections.abc import Iterable, Iterator
from functools import cache
from statistics import fmean

from findings.kept import cell, markdown, measured, percent
from rightreasons.benchmark.suites.defaults import (
    CONTROLLED,
    GUIDED,
    NETS,
    ORACLE,
    variant_name,
)
from rightreasons.benchmark.suites.defaults_sets import CASES, DEVELOPMENT, NO_SHORTCUT, TEST

SUITE = "defaults"
WORST, ACCURACY = "worst group", "accuracy"
NEAR = 0.03
"""How far the best guided recipe may stay below the oracle's worst group."""
BELOW = 0.02
"""How far a guided recipe may end below ERM's worst group."""
LOSS = 0.03
"""How much accuracy a guided recipe may lose where there is no shortcut."""
SHARE = 0.75
"""Share of the test sets on which the best guided recipe must be near the oracle."""


def mean(variant: str, method: str, measure: str = WORST) -> float | None:
    """Return the mean over seeds, or None if it was not run."""
    found = measured(SUITE).get((variant, method), {}).get(measure, {}).get("ours")
    return None if found is None else found["mean"]


def methods_of(variant: str) -> list[str]:
    """List the methods that a block has rows of."""
    return [m for v, m in measured(SUITE) if v == variant and mean(v, m) is not None]


def blocks(sets: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield data set, net and name of every block that has rows."""
    for data in sets:
        for net in NETS:
            name = variant_name(data, net)
            if any(variant == name for variant, _ in measured(SUITE)) and methods_of(name):
                yield data, net, name


def reference(variant: str) -> tuple[str, float] | None:
    """Name the reference of a block and its worst group: the oracle, else the best known."""
    oracle = mean(variant, ORACLE)
    if oracle is not None:
        return ORACLE, oracle
    known = {m: mean(variant, m) for m in methods_of(variant)}
    best = max(known, key=lambda m: known[m] or 0.0, default=None)
    return None if best is None else (best, known[best] or 0.0)


def best_guided(variant: str) -> tuple[str, float] | None:
    """Name the guided recipe with the best worst group of a block, and that group."""
    known = {m: mean(variant, m) for m in methods_of(variant) if m in GUIDED}
    best = max(known, key=lambda m: known[m] or 0.0, default=None)
    return None if best is None else (best, known[best] or 0.0)


def gap(variant: str) -> float | None:
    """Return how far the best guided recipe is from the reference; below 0 is worse."""
    beside, best = reference(variant), best_guided(variant)
    return None if beside is None or best is None else best[1] - beside[1]


def is_near(data: str) -> bool:
    """Tell whether the best guided recipe is near the reference with every net of a data set."""
    gaps = [gap(name) for _, _, name in blocks([data])]
    return bool(gaps) and all(one is not None and one >= -NEAR for one in gaps)


def below_erm(methods: Iterable[str] = GUIDED) -> list[tuple[str, str, float]]:
    """List block, recipe and difference where one of these recipes ends too far below ERM."""
    found = []
    for _, _, name in blocks([*DEVELOPMENT, *TEST]):
        erm = mean(name, "erm")
        for method in methods_of(name):
            value = mean(name, method)
            if method in methods and erm is not None and value is not None:
                found += [(name, method, value - erm)] if value < erm - BELOW else []
    return found


def losses() -> dict[str, float]:
    """Return the accuracy that each recipe with masks loses where there is no shortcut."""
    (name,) = [name for _, _, name in blocks([NO_SHORTCUT])] or [""]
    erm = mean(name, "erm", ACCURACY)
    methods = [one for one in methods_of(name) if one in (*GUIDED, *CONTROLLED)] if name else []
    known = {one: mean(name, one, ACCURACY) for one in methods}
    return {m: erm - value for m, value in known.items() if erm is not None and value is not None}


def verdict() -> str:
    """Show what the suite must show, and whether it does."""
    rows = []
    for title, sets, needed in (
        ("development sets", DEVELOPMENT, len(DEVELOPMENT)),
        ("test sets", TEST, -(-SHARE * len(TEST) // 1)),
    ):
        near = [data for data in sets if is_near(data)]
        run = [data for data in sets if any(blocks([data]))]
        rows.append(
            (
                f"best guided recipe within {percent(NEAR, 0)} points of the reference, {title}",
                f"{len(near)} of {len(sets)}" + ("" if len(run) == len(sets) else ", not all run"),
                f"{int(needed)} of {len(sets)}",
                "yes" if len(near) >= needed else "no",
            )
        )
    under = below_erm()
    rows.append(
        (
            f"guided recipes more than {percent(BELOW, 0)} points below ERM's worst group",
            str(len(under)),
            "0",
            "no" if under else "yes",
        )
    )
    lost = {method: value for method, value in losses().items() if method in GUIDED}
    over = [method for method, value in lost.items() if value > LOSS]
    rows.append(
        (
            f"guided recipes that lose over {percent(LOSS, 0)} points of accuracy, no shortcut",
            str(len(over)) if lost else "not run",
            "0",
            "no" if over or not lost else "yes",
        )
    )
    return markdown(("what", "found", "needed", "reached"), rows)


def near_table(sets: Iterable[str]) -> str:
    """Show for each block the reference, the best guided recipe and ERM."""
    rows = []
    for data, net, name in blocks(sets):
        beside, best, erm = reference(name), best_guided(name), mean(name, "erm")
        if beside is None or best is None:
            continue
        rows.append(
            (
                data,
                net,
                "–" if erm is None else percent(erm),
                f"{percent(beside[1])} ({beside[0]})",
                f"{percent(best[1])} ({best[0]})",
                f"{100 * (best[1] - beside[1]):+.1f}".replace("-", "−"),
            )
        )
    return markdown(("data", "net", "erm", "reference", "best guided recipe", "difference"), rows)


def recipe_table() -> str:
    """Show each guided recipe over all blocks: its distance to the reference, and to ERM."""

    def gaps(method: str, sets: Iterable[str]) -> list[float]:
        found = []
        for _, _, name in blocks(sets):
            value, beside = mean(name, method), reference(name)
            if value is not None and beside is not None:
                found.append(value - beside[1])
        return found

    under = [method for _, method, _ in below_erm((*GUIDED, *CONTROLLED))]
    lost = losses()
    rows = []
    for method in (*GUIDED, *CONTROLLED):
        columns = [gaps(method, sets) for sets in (DEVELOPMENT, TEST)]
        everything = [*columns[0], *columns[1]]
        if not everything:
            continue  # not run yet
        shown = [f"{100 * fmean(one):.1f} ({len(one)})" if one else "–" for one in columns]
        rows.append(
            (
                f"`{method}`",
                *(one.replace("-", "−") for one in shown),
                f"{100 * min(everything):.1f}".replace("-", "−") if everything else "–",
                str(under.count(method)),
                percent(lost[method]) if method in lost else "–",
            )
        )
    header = (
        "recipe",
        "to the reference, development (blocks)",
        "test (blocks)",
        "at worst",
        "blocks below ERM",
        "accuracy lost, no shortcut",
    )
    return markdown(header, rows)


def below_table() -> str:
    """List where a recipe with masks ends below ERM."""
    rows = [
        (name, f"`{method}`", f"{100 * difference:.1f}".replace("-", "−"))
        for name, method, difference in below_erm((*GUIDED, *CONTROLLED))
    ]
    return markdown(("data set and net", "recipe", "points"), rows) if rows else "None."


def short_table() -> str:
    """Show every block in a line: ERM, the recipes that run in all blocks, and the reference."""
    rows = []
    for kind, sets in (("development", DEVELOPMENT), ("test", TEST)):
        for data, net, name in blocks(sets):
            values = [mean(name, method) for method in ("erm", "r3", "counterexamples")]
            beside = reference(name)
            rows.append(
                (
                    f"{data}, {net}",
                    kind,
                    *("–" if value is None else percent(value) for value in values),
                    "–" if beside is None else f"{percent(beside[1])} ({beside[0]})",
                )
            )
    header = ("data set and net", "list", "`erm`", "`r3`", "`counterexamples`", "reference")
    return markdown(header, rows)


def case_table() -> str:
    """Show the worst groups of tagged Pets with all, few and wrong masks, and accuracy without."""
    (first, *_) = NETS
    columns = {
        name: variant_name(name, first) for name in ("pets_tag", *CASES) if name != NO_SHORTCUT
    }
    free = variant_name(NO_SHORTCUT, first)
    methods = dict.fromkeys(m for name in (*columns.values(), free) for m in methods_of(name))
    rows = []
    for method in methods:
        found = [measured(SUITE).get((name, method), {}) for name in columns.values()]
        without = measured(SUITE).get((free, method), {})
        rows.append(
            (
                f"`{method}`",
                *(cell(one.get(WORST, {}).get("ours")) for one in found),
                cell(without.get(ACCURACY, {}).get("ours")),
            )
        )
    return markdown(("method", *columns, "accuracy, no shortcut"), rows)


TABLES = {
    "verdict": verdict,
    "development": lambda: near_table(DEVELOPMENT),
    "test": lambda: near_table(TEST),
    "recipes": recipe_table,
    "below": below_table,
    "short": short_table,
    "cases": case_table,
}


@cache
def values() -> dict[str, str]:
    """Return every number of the pages by its name."""
    return {
        "near-test": str(sum(is_near(data) for data in TEST)),
        "num-test": str(len(TEST)),
        "near-development": str(sum(is_near(data) for data in DEVELOPMENT)),
        "num-development": str(len(DEVELOPMENT)),
    }
