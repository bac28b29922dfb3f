"""Density smoothing's Figure 4: leakage, attacks and accuracy as the penalty grows."""

from __future__ import annotations

from dataclasses import replace

from rightreasons.benchmark.measure import Measure
from rightreasons.benchmark.suite import Suite, Variant
from rightreasons.benchmark.suites import density_table1 as table1

__all__ = ["density_figure4"]

WEIGHTS = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0)
METHODS = ("InputGrad", "Density (log-sum-exp)")

PROTOCOL = (
    "One seed. Both penalties at the same weights, powers of two; nothing is chosen. The paper's "
    "figure is a picture, so there are no figures of it to compare with.",
    "Equal weights are not equal penalties: compare leakage at equal accuracy, as "
    "`benchmarks/density_figure.py` does.",
)


def density_figure4() -> Suite:
    """Density and InputGrad along a sweep of the weight (density smoothing's Figure 4)."""
    whole = table1.density_table1()
    return Suite(
        name="density-figure4",
        title="Leakage, attacks and accuracy as the penalty grows, BlockMNIST",
        paper=whole.paper,
        table="Figure 4",
        base=table1.BASE,
        variants=tuple(
            Variant(
                name=f"weight {weight:g}",
                grids={name: [{"settings": {"weight": weight}}] for name in METHODS},
            )
            for weight in WEIGHTS
        ),
        methods=[method for method in whole.methods if method.name in METHODS],
        measures=(
            Measure(key="feature_leakage", name="leakage"),
            Measure(key="accuracy", name="accuracy", percent=True),
            Measure(key="adversarial_accuracy/linf/0.1", name="PGD-20 linf 0.1", percent=True),
            Measure(key="adversarial_accuracy/l2/0.3", name="PGD-20 l2 0.3", percent=True),
        ),
        select_by="accuracy",
        budgets={name: replace(budget, seeds=(0,)) for name, budget in whole.budgets.items()},
        protocol=(*table1.PROTOCOL[1:4], *PROTOCOL),
        layout="columns",
    )
