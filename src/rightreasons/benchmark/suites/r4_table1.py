"""R4's Table 1: do the methods keep the worst group right on Decoy MNIST and Decoy DERM?"""

from __future__ import annotations

from pathlib import Path

from rightreasons.benchmark.measure import read_figures
from rightreasons.benchmark.suite import Suite, Variant
from rightreasons.benchmark.suites import r4_part as r4

__all__ = ["VARIANTS", "r4_table1"]

FIGURES = Path(__file__).with_suffix(".yaml")

VARIANTS = (
    Variant(
        name="mnist-faint",
        title="Decoy MNIST, faint greys, at test a wrong one: the paper's data",
        overrides=r4.FAINT,
        chosen_in="mnist-ross",
    ),
    Variant(
        name="mnist-ross",
        title="Decoy MNIST, the greys of Ross et al. 2017, at test any of the ten",
        overrides=r4.ROSS,
    ),
    Variant(
        name="derm",
        title="Decoy DERM, 28 × 28, a net of four convolutions",
        overrides=r4.DERM,
        grids=r4.DERM_GRIDS,
    ),
)

PROTOCOL = (
    "The paper's worst group, by its public code, is the smallest of the groups' means over "
    "restarts: our `worst group of means`. Our `worst group` is the mean of each run's smallest, "
    "which is never larger; the paper's figure stands beside both.",
)


def r4_table1() -> Suite:
    """All R4 methods on Decoy MNIST and Decoy DERM (R4's Table 1)."""
    return Suite(
        name="r4-table1",
        title="Model guidance on Decoy MNIST and Decoy DERM",
        paper="ghitu2025model",
        table="Table 1",
        base=r4.BASE,
        variants=VARIANTS,
        methods=r4.methods(),
        measures=r4.ACCURACY,
        select_by=r4.CHOICE,
        ties_within=r4.TIES_WITHIN,
        budgets=r4.budgets(derm=["derm"]),
        figures=read_figures(FIGURES),
        protocol=(*r4.PROTOCOL, *PROTOCOL),
    )
