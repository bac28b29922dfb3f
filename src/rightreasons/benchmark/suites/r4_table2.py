"""R4's Table 2: how far can the gradient move inside the masks, and how far outside?"""

from __future__ import annotations

from pathlib import Path

from rightreasons.benchmark.measure import Measure, read_figures
from rightreasons.benchmark.suite import Suite
from rightreasons.benchmark.suites import r4_part as r4
from rightreasons.benchmark.suites.r4_table1 import VARIANTS

__all__ = ["r4_table2"]

FIGURES = Path(__file__).with_suffix(".yaml")

MEASURES = (
    Measure(key="group_accuracy/worst", name="worst group", percent=True),
    r4.MASKED_FRAGILITY,
    Measure(key=f"{r4.FRAGILITY}/attack", name="the same, found by attack"),
    Measure(key=f"{r4.FRAGILITY}/max", name="masked fragility, largest"),
    Measure(key=f"{r4.FRAGILITY}/core_max", name="core fragility, largest"),
    Measure(key=f"{r4.FRAGILITY}/ratio", name="masked / core"),
)

PROTOCOL = (
    "The paper's κ is, by its text, the mean over masked features of the certified gradient's "
    "width; by its public code the largest over test images and features. Its figures stand beside "
    "our largest; its ratio is one of largest widths, ours one of means.",
    "The models are those of r4-table1, chosen by accuracy alone.",
    "The paper's 0.93 for Cert-R4 on Decoy MNIST is 0.008 in other results of the same settings "
    "that come with its code.",
    "The paper masks all four corners of a test image; here it is the patch alone.",
)


def r4_table2() -> Suite:
    """Certified gradient fragility inside and outside the masks (R4's Table 2)."""
    return Suite(
        name="r4-table2",
        title="Gradient fragility on Decoy MNIST and Decoy DERM",
        paper="ghitu2025model",
        table="Table 2",
        base=r4.BASE,
        variants=VARIANTS,
        methods=r4.methods(),
        measures=MEASURES,
        select_by=r4.CHOICE,
        ties_within=r4.TIES_WITHIN,
        budgets=r4.budgets(derm=["derm"]),
        figures=read_figures(FIGURES),
        protocol=(*r4.PROTOCOL, *PROTOCOL),
    )
