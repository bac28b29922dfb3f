"""The methods of MaskTune's Table 1, on data with a shortcut that can be had by all."""

from __future__ import annotations

from collections.abc import Mapping

from rightreasons.benchmark.measure import Measure
from rightreasons.benchmark.suite import Budget, Method, Overrides, Suite, Variant
from rightreasons.benchmark.suites import masktune_part as part

__all__ = ["masktune_table1"]

LIGHT_DIVDIS = "DivDis (weights 0.1)"

METHODS: Mapping[str, Overrides] = {
    "ERM": {},
    "CVaR DRO": {"recipe": "cvar_dro", "settings": {"alpha": 0.1}},
    "SD": {"recipe": "spectral_decoupling", "settings": {"weight": 0.1}},
    "LfF": {"strategy": "lff"},
    "JTT": {"strategy": "jtt", "strategy_settings": {"first_epochs": 1, "upweight": 20}},
    "DivDis": {"strategy": "divdis"},
    LIGHT_DIVDIS: {"strategy": "divdis", "strategy_settings": {"weight": 0.1, "balance": 0.1}},
    "DFR": {"strategy": "dfr"},
    "MaskTune": {"strategy": "masktune"},
    "oracle": {"data_settings": {"oracle": True}},
}

PROTOCOL = (
    "The paper's table is of CelebA, so there are no figures of it to compare with. Biased MNIST "
    "is measured on its biased test set, decoy digits with patches of random grey.",
    "Every method has the settings named here, none chosen by groups; those of the papers are "
    "chosen by the worst group of validation data.",
    "DFR learns its last layer from validation data, which has groups: it knows more than the "
    "others. DivDis reads the inputs of the test set. CIM is left out: it cannot be stated from "
    "this paper.",
    "DivDis has its paper's weights of 10 for disagreement and balance, and 0.1 in a line of its "
    "own, taken after test results of weights of 10, 1 and 0.1 were seen at seed 0.",
)


def masktune_table1() -> Suite:
    """Methods against shortcuts without masks: worst groups (after MaskTune's Table 1)."""
    return Suite(
        name="masktune-table1",
        title="Methods that need no masks, on two decoy sets",
        paper="asgari2022masktune",
        table="Table 1",
        base={name: value for name, value in part.BASE.items() if name not in ("data", "recipe")},
        variants=(
            Variant(
                name="biased mnist",
                title="squares on 99 % of the digits 0-4 in training, on 5-9 at test",
                overrides={
                    "data": "biased_mnist",
                    "data_settings": {"test": "biased", "subset": 15000},
                },
                methods=[name for name in METHODS if name != "oracle"],
            ),
            Variant(
                name="decoy digits",
                title="a grey patch that tells the digit in training, and nothing at test",
                overrides={"data": "decoy_digits", "data_settings": {"size": 20}},
            ),
        ),
        methods=tuple(Method(name=name, overrides=own) for name, own in METHODS.items()),
        measures=(
            Measure(key="group_accuracy/worst", name="worst group", percent=True),
            Measure(key="accuracy", name="accuracy", percent=True),
        ),
        select_by="group_accuracy/worst",
        budgets={
            name: Budget(
                seeds=(0, 1, 2),
                overrides={"epochs": epochs},
                variants={"decoy digits": {"epochs": 4 * epochs}},
                protocol=(f"{epochs} epochs, {4 * epochs} on decoy digits.",),
            )
            for name, epochs in (("small", 5), ("paper", 20))
        },
        protocol=(*part.PROTOCOL[:1], *PROTOCOL),
    )
