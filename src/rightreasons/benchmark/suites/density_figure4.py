"""Density smoothing's Figure 4: leakage, attacks and accuracy as the penalty grows."""

from __future__ import annotations

from collections.abc import Mapping

from rightreasons.benchmark.measure import Measure
from rightreasons.benchmark.suite import Suite, Variant
from rightreasons.benchmark.suites.density_table1 import BASE, density_table1
from rightreasons.benchmark.suites.density_table1 import PROTOCOL as TABLE1_PROTOCOL

__all__ = ["density_figure4"]

_POWERS = (0.125, 0.25, 0.5, 1.0, 2.0)
_ABSOLUTE = (0.004, 0.008, 0.016, 0.032, 0.064)
WEIGHTS: Mapping[str, tuple[float, ...]] = {
    "InputGrad": _POWERS,
    "InputGrad (loss)": (0.5, 1.0, 2.0, 2.5, 3.0),
    "InputGrad (p = 1)": _ABSOLUTE,
    "Density (log-sum-exp)": _POWERS,
    "Density (p = 1)": _ABSOLUTE,
}
NUM_STEPS = len(_POWERS)

PROTOCOL = (
    "Each penalty at five weights, which grow from step to step and stand in the last table; "
    "nothing is chosen. The paper's figure is a picture, so there are no figures of it to compare "
    "with.",
    "Equal weights are not equal penalties: compare leakage at equal accuracy, as "
    "`benchmarks/density_figure.py` does.",
)


def density_figure4() -> Suite:
    """Density and InputGrad along a sweep of the weight (density smoothing's Figure 4)."""
    whole = density_table1()
    return Suite(
        name="density-figure4",
        title="Leakage, attacks and accuracy as the penalty grows, BlockMNIST",
        paper=whole.paper,
        table="Figure 4",
        base=BASE,
        variants=tuple(
            Variant(
                name=f"step {step + 1}",
                grids={
                    name: [{"settings": {"weight": weights[step]}}]
                    for name, weights in WEIGHTS.items()
                },
            )
            for step in range(NUM_STEPS)
        ),
        methods=[method for method in whole.methods if method.name in WEIGHTS],
        measures=(
            Measure(key="feature_leakage", name="leakage"),
            Measure(key="feature_leakage/share", name="leaked share", percent=True),
            Measure(key="accuracy", name="accuracy", percent=True),
            Measure(key="adversarial_accuracy/linf/0.1", name="PGD-20 linf 0.1", percent=True),
            Measure(key="adversarial_accuracy/l2/0.1", name="PGD-20 l2 0.1", percent=True),
            Measure(key="adversarial_accuracy/l2/0.3", name="PGD-20 l2 0.3", percent=True),
        ),
        select_by="accuracy",
        budgets=whole.budgets,
        protocol=(*TABLE1_PROTOCOL[1:7], *PROTOCOL),
        layout="columns",
    )
