"""The density paper's Figure 4, and group DRO with density smoothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rightreasons.benchmark.measure import Measure
from rightreasons.benchmark.suite import (
    Budget,
    Grid,
    Method,
    Overrides,
    Suite,
    Variant,
    make_grid,
    make_suite,
)
from rightreasons.benchmark.suites.density_tables import BASE, PAPER, density_table1
from rightreasons.benchmark.suites.density_tables import PROTOCOL as TABLE1_PROTOCOL

__all__ = ["density_figure4", "density_groups"]

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
    return make_suite(
        PAPER,
        "density-figure4",
        "Leakage, attacks and accuracy as the penalty grows, BlockMNIST",
        "Figure 4",
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
        budgets={name: replace(one, grids={}) for name, one in whole.budgets.items()},
        protocol=(*TABLE1_PROTOCOL[1:7], *PROTOCOL),
        layout="columns",
    )


RATE = 2e-3

GROUPS_BASE: Overrides = {
    "data": "biased_mnist",
    "data_settings": {"share": 0.95, "test": "biased"},
    "model": "small_cnn",
    "optimizer": "adam",
    "scheduler": "cosine",
    "lr": RATE,
    "metrics": ["accuracy", "group_accuracy"],
}

_RATES: Grid = [{"lr": rate} for rate in (RATE, 2 * RATE, 4 * RATE)]
_STEPS = make_grid(step_size=(0.01, 0.03, 0.1))
_WEIGHTS = make_grid(weight=(0.0001, 0.001, 0.01))

GROUPS_METHODS = (
    Method(name="ERM", overrides={"recipe": "erm"}, grid=_RATES),
    Method(name="Density", overrides={"recipe": "density"}, grid=_WEIGHTS),
    Method(name="group DRO", overrides={"recipe": "group_dro"}, grid=_STEPS),
    Method(name="group DRO + Density", overrides={"recipe": "group_dro_density"}, grid=_WEIGHTS),
)

GROUPS_PROTOCOL = (
    "The paper's data are CelebA-Hair; here it is biased MNIST with squares on 95 % of the digits "
    "0-4 and on 5 % of the others, so that validation data have a hundred images of each group.",
    "The biased test set has squares on 5-9 alone, the original none: the worst group of either.",
    "Candidates are rates for ERM, steps of group DRO's weights, or weights of the penalty; all "
    "but ERM have its first rate.",
)


def density_groups() -> Suite:
    """Group DRO with and without density smoothing (after the density paper's Section 7.2)."""
    return make_suite(
        PAPER,
        "density-groups",
        "Group DRO and density smoothing, biased MNIST",
        "Section 7.2",
        base=GROUPS_BASE,
        variants=(Variant(name="biased-mnist", title="Biased MNIST, groups known in training"),),
        methods=GROUPS_METHODS,
        measures=(
            Measure(key="group_accuracy/worst", name="biased, worst group", percent=True),
            Measure(
                key="group_accuracy/worst",
                part="original",
                name="original, worst group",
                percent=True,
            ),
            Measure(key="accuracy", name="biased", percent=True),
        ),
        select_by="group_accuracy/worst",
        budgets={
            "small": Budget(
                seeds=(0, 1, 2),
                overrides={"data_settings": {"subset": 10_000}, "epochs": 5, "batch_size": 100},
                protocol=("10,000 training images, 5 epochs.",),
            ),
            "paper": Budget(
                seeds=(0, 1, 2),
                overrides={"epochs": 20, "batch_size": 128},
                protocol=(
                    "All 55,000 training images, 20 epochs. The paper has no such experiment; its "
                    "own protocol on CelebA-Hair and Waterbirds is that of `density-table2`.",
                ),
            ),
        },
        protocol=GROUPS_PROTOCOL,
    )
