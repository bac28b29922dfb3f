"""Numbers and tables of docs/results/reff.md and benchmarks/results/reff/tables.md."""

import math
from functools import cache

from findings.kept import (
    NOT_RUN,
    cell,
    figures,
    kept_rows,
    markdown,
    measured,
    ours,
    paper,
    percent,
)

TABLE, SKIN = "reff-table3", "reff-decoy-ham"
SHORTCUT, NONE, ANEW = "p = 0", "p = 1", "p = 1, chosen anew"
L2, FEW = "ReFF (L2)", "ReFF (L2, n = 10)"
SEEN, NEW = "the same, as in training", "heat outside the digit"
SMALL, LARGE = "small CNN", "EfficientNet-Lite0"
SHORT = {
    "base": "baseline",
    "reff": "ReFF",
    "single": "ReFF (single layer)",
    "l1": "ReFF (L1)",
    "l2": L2,
    "abn": "ABN",
    "r3": "R3",
    "margin": "R3 (margin)",
    "adv": "Adv-R4",
    "copies": "counterexamples",
    "oracle": "oracle",
}


def mean(method: str, measure: str = "accuracy", variant: str = SHORTCUT) -> float:
    return ours(TABLE, variant, method, measure)


def gain(method: str, variant: str = SHORTCUT) -> float:
    return mean(method, variant=variant) - mean("baseline", variant=variant)


def skin(net: str, method: str, measure: str = "worst group") -> float:
    return ours(SKIN, net, method, measure)


def kept_at(weight: float) -> float:
    """Return the share of the gain that ten annotations keep at a weight, at seed 0."""
    first = {
        (
            row["config"]["strategy"],
            row["config"]["recipe"],
            row["config"]["settings"].get("weight"),
        ): row["results"]["metrics"]["test"]["accuracy"]
        for row in kept_rows("reff")
        if row["config"]["data"] == "textured_mnist"
        and row["config"]["seed"] == 0
        and row["config"]["lr"] == 3e-3
        and row["config"]["settings"] in ({}, {"ramp": 0.5, "weight": weight})
        and row["config"]["model_settings"] == {"padding": 1}
        and row["config"]["data_settings"]["digit_size"] == 31
        and row["config"]["data_settings"]["textures"] == "procedural"
        and row["config"]["data_settings"].get("background_classes") == 37
        and not {"oracle", "background_randomness"} & set(row["config"]["data_settings"])
    }
    needed = {("once", "erm", None), ("reff", "reff_l2", weight), ("once", "reff_l2", weight)}
    if not needed <= set(first):
        return math.nan
    baseline = first["once", "erm", None]
    few, all_masks = (first[strategy, "reff_l2", weight] for strategy in ("reff", "once"))
    return (few - baseline) / (all_masks - baseline)


def on_skin() -> dict[str, str]:
    """Return the numbers on skin lesions."""
    nets = {"small": SMALL, "large": LARGE}
    methods = {
        "margin": "R3 (margin)",
        "margin-few": "R3 (margin, 20 masks)",
        "reff": "ReFF",
        "reff-few": "ReFF (20 masks)",
    }
    return {
        **{
            f"skin-{where}-{short}": percent(skin(net, method) - skin(net, "ERM"))
            for where, net in nets.items()
            for short, method in methods.items()
            if where == "small" or not short.startswith("reff")
        },
        **{
            f"skin-worst-{short}": percent(skin(LARGE, method))
            for short, method in (("erm", "ERM"), ("r3", "R3"), ("reff", "ReFF"))
        },
        **{
            f"skin-heat-{short}": percent(skin(LARGE, method, "heat on the artefact"))
            for short, method in (("erm", "ERM"), ("reff", "ReFF"))
        },
    }


def cost() -> dict[str, str]:
    """Return the cost of a step."""
    four = figures("reff_step_time")["resnet18"]["reff, four layers"]
    return {
        "cost-hand": f"{four['beside by hand']:.2f}",
        "cost-first": f"{four['beside reff, first layer']:.2f}",
        "cost-ratio": f"{four['beside reff, last layer']:.2f}",
    }


@cache
def values() -> dict[str, str]:
    """Return every number of the pages by its name."""
    theirs = {
        short: percent(paper(TABLE, SHORTCUT, SHORT[short], "accuracy"))
        for short in ("base", "reff", "abn")
    }
    for short, method in (("single", SHORT["single"]), ("several", "ReFF")):
        theirs[short] = percent(paper("reff-table2", "digit 31", method, "accuracy"))
    pseudo = figures("pseudo_annotator")
    return {
        **{short: percent(mean(method)) for short, method in SHORT.items()},
        **{f"paper-{short}": value for short, value in theirs.items()},
        **{
            f"{where}-{short}": percent(mean(SHORT[short], measure), 0)
            for where, measure in (("seen", SEEN), ("new", NEW))
            for short in ("base", "reff", "l2")
            if (where, short) != ("new", "reff")
        },
        **{
            f"{where}-less": percent(1 - mean(L2, measure) / mean("baseline", measure), 0)
            for where, measure in (("seen", SEEN), ("new", NEW))
        },
        "gain-few": percent(gain(FEW)),
        "gain-all": percent(gain(L2)),
        "kept-three": percent(kept_at(3.0), 0),
        "kept-ten": percent(kept_at(10.0), 0),
        "loss-reff": percent(-gain("ReFF", NONE)),
        "loss-l2": percent(-gain(L2, NONE)),
        "loss-reff-anew": percent(-gain("ReFF", ANEW)),
        "heat-l2-anew": percent(mean(L2, SEEN, ANEW), 0),
        "heat-base-anew": percent(mean("baseline", SEEN, ANEW), 0),
        **{
            f"half-{short}": percent(ours("reff-table2", "digit 16", SHORT[short], "accuracy"))
            for short in ("base", "reff")
        },
        "photo-base": percent(mean("baseline", variant="photographs")),
        "photo-l2": percent(mean(L2, variant="photographs")),
        "validation": str(pseudo["settings"]["validation images"]),
        "seeds": str(len(pseudo["settings"]["seeds"])),
        **on_skin(),
        **cost(),
    }


def key() -> str:
    """Compare accuracies with the paper's, and show the heat."""
    rows = []
    shown = ("baseline", "ReFF", "ReFF (L1)", L2, FEW, "ABN", "R3", "R3 (margin)", "Adv-R4")
    for method in (*shown, "counterexamples", "oracle"):
        found = measured(TABLE)[SHORTCUT, method]
        accuracy, heat = found["accuracy"], found[SEEN]
        rows.append(
            (
                method,
                cell(accuracy["ours"], absent=NOT_RUN),
                cell(accuracy["paper"]),
                cell(heat["ours"], absent=NOT_RUN, digits=0),
            )
        )
    return markdown(("method", "accuracy", "paper", "heat outside"), rows)


def skin_table() -> str:
    """Show the worst groups on skin lesions."""
    found = measured(SKIN)
    methods = dict.fromkeys(method for _, method in found)
    rows = [
        (
            method,
            *(
                cell(found[net, method]["worst group"]["ours"], absent=NOT_RUN)
                for net in (SMALL, LARGE)
            ),
        )
        for method in methods
    ]
    return markdown(("method", SMALL, LARGE), rows)


def pseudo_masks() -> str:
    """Show how good predicted masks are."""
    rows = [
        (
            str(row["annotations a class"]),
            f"{row['relevant_iou']:.3f}",
            ", ".join(f"{value:.3f}" for value in row["relevant_iou of each seed"]),
            f"{row['iou']:.3f}",
            f"{row['calibration_error']:.4f}",
        )
        for row in figures("pseudo_annotator")["rows"]
    ]
    header = (
        "annotations for each digit",
        "overlap of the digits",
        "at each seed",
        "overlap of the surroundings",
        "calibration error",
    )
    return markdown(header, rows)


def attributions() -> str:
    """Show where the attributions of two runs lie."""
    rows = [
        (net, run, *(percent(value) for value in found[run].values()))
        for net, name in ((SMALL, "small_cnn"), (LARGE, "efficientnet"))
        for found in [figures(f"decoy_ham_{name}")]
        for run in ("ERM", "R3 (margin)")
    ]
    return markdown(
        ("net", "run", "right", "gradient on the artefact", "heat on the artefact"), rows
    )


def step_time() -> str:
    """Show the ratios of a step."""
    rows = [
        (step, other.removeprefix("beside "), f"{ratio:.2f}")
        for step, ratios in figures("reff_step_time")["resnet18"].items()
        if step != "cross_entropy by hand"
        for other, ratio in ratios.items()
    ]
    return markdown(("step", "compared with", "ratio"), rows)


TABLES = {
    "key": key,
    "skin": skin_table,
    "pseudo-masks": pseudo_masks,
    "attributions": attributions,
    "step-time": step_time,
}
