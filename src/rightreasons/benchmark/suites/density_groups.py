"""Does density smoothing help group DRO, as the density paper has it on CelebA-Hair?"""

from __future__ import annotations

from rightreasons.benchmark.measure import Measure
from rightreasons.benchmark.suite import Budget, Grid, Method, Overrides, Suite, Variant

__all__ = ["density_groups"]

RATE = 2e-3

BASE: Overrides = {
    "data": "biased_mnist",
    "data_settings": {"share": 0.95, "test": "biased"},
    "model": "small_cnn",
    "optimizer": "adam",
    "scheduler": "cosine",
    "lr": RATE,
    "metrics": ["accuracy", "group_accuracy"],
}

_RATES: Grid = [{"lr": rate} for rate in (RATE / 2, RATE, 2 * RATE)]
_STEPS: Grid = [{"settings": {"step_size": size}} for size in (0.01, 0.03, 0.1)]
_WEIGHTS: Grid = [{"settings": {"weight": weight}} for weight in (0.01, 0.1, 1.0)]

METHODS = (
    Method(name="ERM", overrides={"recipe": "erm"}, grid=_RATES),
    Method(name="Density", overrides={"recipe": "density"}, grid=_WEIGHTS),
    Method(name="group DRO", overrides={"recipe": "group_dro"}, grid=_STEPS),
    Method(name="group DRO + Density", overrides={"recipe": "group_dro_density"}, grid=_WEIGHTS),
)

PROTOCOL = (
    "The paper's data are CelebA-Hair; here it is biased MNIST with squares on 95 % of the digits "
    "0-4 and on 5 % of the others, so that validation data have a hundred images of each group.",
    "The biased test set has squares on 5-9 alone, the original none: the worst group of either.",
    "Candidates are rates for ERM, steps of group DRO's weights, or weights of the penalty; all "
    "but ERM have its middle rate.",
)


def density_groups() -> Suite:
    """Group DRO with and without density smoothing (after the density paper's Section 7.2)."""
    return Suite(
        name="density-groups",
        title="Group DRO and density smoothing, biased MNIST",
        paper="yang2024regulating",
        table="Section 7.2",
        base=BASE,
        variants=(Variant(name="biased-mnist", title="Biased MNIST, groups known in training"),),
        methods=METHODS,
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
                protocol=("All 55,000 training images, 20 epochs.",),
            ),
        },
        protocol=PROTOCOL,
    )
