"""Numbers and tables of docs/results/masktune.md and benchmarks/results/masktune/tables.md."""

from collections.abc import Iterator
from functools import cache

from findings.kept import (
    NOT_RUN,
    cell,
    comparison,
    ends,
    figures,
    markdown,
    measured,
    ours,
    paper,
    percent,
)

ONE, TWO, DIGITS = "one square", "two squares", "decoy digits"
PHOTOGRAPHS = ("masktune-waterbirds", "masktune-celeba")
NET = "resnet"
TARGETS = (95, 90, 85, 80)
WORST = "worst group"


def differences_from_targets() -> Iterator[list[float]]:
    """Yield realised less target coverage in points, of all runs of a method and target."""
    for line in comparison("masktune-table4").lines:
        for target in TARGETS:
            name = f"risk_coverage/realised/{target}/coverage"
            yield [100 * run["metrics"]["test"][name] - target for run in line.results]


def abstention() -> dict[str, str]:
    """Return the numbers on selective classification."""
    suite, data = "masktune-table4", "cifar10"
    singles = [value for runs in differences_from_targets() for value in runs]
    means = [sum(runs) / len(runs) for runs in differences_from_targets()]
    return {
        **{
            f"error-{short}": percent(ours(suite, data, method, "error at 90 %"))
            for short, method in (
                ("mask", "MaskTune"),
                ("sr", "SR"),
                ("osp", "OSP"),
                ("net", "SelectiveNet"),
                ("gamblers", "Deep Gamblers"),
            )
        },
        "paper-error-mask": percent(paper(suite, data, "MaskTune", "error at 90 %")),
        "paper-error-osp": percent(paper(suite, data, "OSP", "error at 90 %")),
        "paper-error-sr": percent(paper(suite, data, "SR", "error at 90 %")),
        "coverage-off": f"{max(map(abs, means)):.1f}",
        "coverage-values": str(len(singles)),
        "coverage-outside": str(sum(abs(value) > 1 for value in singles)),
        "coverage-worst": f"{max(map(abs, singles)):.2f}",
    }


def without_masks() -> dict[str, str]:
    """Return the worst groups of the methods that need no masks."""
    names = {
        "erm": "ERM",
        "cvar": "CVaR DRO",
        "sd": "SD",
        "lff": "LfF",
        "jtt": "JTT",
        "div": "DivDis",
        "div-small": "DivDis (weights 0.1)",
        "dfr": "DFR",
        "mask": "MaskTune",
    }
    variants = {"square": "biased mnist", "digits": DIGITS}
    return {
        f"{where}-{short}": percent(ours("masktune-table1", variant, method, WORST))
        for where, variant in variants.items()
        for short, method in names.items()
        if where == "square" or short in ("erm", "mask", "div", "div-small")
    }


def on_photographs() -> dict[str, str]:
    """Return the worst groups on Waterbirds ("birds") and CelebA ("faces")."""
    names = {
        "erm": "ERM",
        "balanced": "ERM, balanced",
        "dro": "Group DRO",
        "lff": "LfF",
        "dfr": "DFR",
        "div": "DivDis",
        "random": "RandMask",
        "mask": "MaskTune",
        "r3": "R3",
        "adv": "Adv-R4",
        "reff": "ReFF",
        "copies": "counterexamples",
    }
    return {
        **{
            f"paper-birds-{short}": percent(paper(PHOTOGRAPHS[0], NET, names[short], WORST))
            for short in ("erm", "mask")
        },
        **{
            f"{where}-{short}": percent(ours(suite, NET, method, WORST))
            for where, suite in zip(("birds", "faces"), PHOTOGRAPHS, strict=True)
            for short, method in names.items()
            if (NET, method) in measured(suite)
        },
        **core_sensitivity(),
    }


def core_sensitivity() -> dict[str, str]:
    """Return the smallest and the largest RCS of all methods on Waterbirds."""
    found = [ours(PHOTOGRAPHS[0], *place, "RCS") for place in measured(PHOTOGRAPHS[0])]
    return {"rcs-low": f"{min(found):.2f}", "rcs-high": f"{max(found):.2f}"}


@cache
def values() -> dict[str, str]:
    """Return every number of the pages by its name."""
    cost = figures("masktune_cost")
    ratios, peaks = cost["ratios"], cost["peak megabytes"]
    beside = "masking / evaluation with gradients"
    beyond = "masking, masks in {}, beyond the evaluation"
    return {
        **{
            f"one-{short}": percent(ours("masktune-figure2", ONE, method, "biased"))
            for short, method in (
                ("erm", "ERM"),
                ("mask", "MaskTune"),
                ("random", "RandMask"),
                ("any", "RandMask, any size"),
            )
        },
        "paper-one-mask": percent(paper("masktune-figure2", ONE, "MaskTune", "biased")),
        "paper-one-any": percent(paper("masktune-table6", ONE, "RandMask, any size", "biased")),
        **{
            f"{name}-{short}": percent(get("masktune-table5", TWO, method, "biased"))
            for name, get in (("two", ours), ("paper-two", paper))
            for short, method in (
                ("erm", "ERM"),
                ("first", "1 iteration"),
                ("second", "2 iterations, accumulative"),
                ("apart", "2 iterations"),
            )
        },
        **abstention(),
        **without_masks(),
        **on_photographs(),
        **ends(
            ("digits-low", "digits-high"),
            [
                ours("masktune-table1", DIGITS, method, WORST)
                for variant, method in measured("masktune-table1")
                if variant == DIGITS and not method.startswith("DivDis")
            ],
        ),
        "cost-input": f"{ratios[beside]:.2f}",
        "cost-layer": f"{ratios[f'{beside} at the layer']:.2f}",
        "cost-stage": f"{ratios['second stage / an epoch of ERM']:.2f}",
        "memory-memory": f"{peaks[beyond.format('memory')]:.1f}",
        "memory-file": f"{peaks[beyond.format('a file')]:.1f}",
        "memory-masks": f"{peaks['the masks']:.1f}",
    }


def key() -> str:
    """Show the worst groups of the methods that need no masks."""
    suite = measured("masktune-table1")
    methods = dict.fromkeys(method for _, method in suite)
    rows = []
    for method in methods:
        cells = []
        for variant in ("biased mnist", DIGITS):
            found = suite.get((variant, method))
            cells.append("–" if found is None else cell(found[WORST]["ours"], absent=NOT_RUN))
        rows.append((method, *cells))
    return markdown(("method", "biased MNIST", "decoy digits"), rows)


def photographs() -> str:
    """Show the worst groups of all methods on Waterbirds and CelebA, beside the paper's."""
    suites = [measured(name) for name in PHOTOGRAPHS]
    rows = []
    for method in dict.fromkeys(method for suite in suites for _, method in suite):
        row = [method]
        for suite in suites:
            found = suite.get((NET, method), {}).get(WORST)
            row += (
                ["–", "–"]
                if found is None
                else [
                    cell(found["ours"], absent=NOT_RUN),
                    cell(found["paper"]),
                ]
            )
        rows.append(row)
    return markdown(("method", "Waterbirds", "paper", "CelebA", "paper"), rows)


def cost_table() -> str:
    """Show seconds, ratios and memory of the second stage."""
    found = figures("masktune_cost")
    units = {"seconds": "s", "ratios": "", "peak megabytes": "MB"}
    rows = [
        (kind, name, f"{value:g} {unit}".strip())
        for kind, unit in units.items()
        for name, value in found[kind].items()
    ]
    return markdown(("kind", "step", "value"), rows)


TABLES = {"key": key, "photographs": photographs, "cost": cost_table}
