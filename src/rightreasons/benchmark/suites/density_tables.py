"""The density paper's Table 1, and its chosen settings at seeds that took no part in a choice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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

__all__ = ["BASE", "PAPER", "PROTOCOL", "density_table1", "density_unseen"]

PAPER = "yang2024regulating"
PAPERS_STEP = 0.01
FLOOR = 0.94
NORMS = ("l2", "linf")
EPSILONS = (0.1, 0.2, 0.3)

BASE: Overrides = {
    "data": "block_mnist",
    "model": "mlp2",
    "optimizer": "adam",
    "scheduler": "cosine",
    "lr": 2e-3,
    "metrics": ["accuracy", "feature_leakage", "adversarial_accuracy"],
    "validation_metrics": ["accuracy", "feature_leakage"],
    "metric_settings": {
        "adversarial_accuracy": {
            "attack": "pgd",
            "norm": NORMS,
            "epsilons": EPSILONS,
            "num_steps": 20,
            "step_size": [PAPERS_STEP, None],
        },
    },
}
_SMOOTH: Overrides = {"model_settings": {"activation": "softplus"}}


_RATES: Grid = [{"lr": rate} for rate in (1e-3, 2e-3, 4e-3)]
_WEIGHTS = make_grid(weight=(0.25, 0.5, 1.0))
_ABSOLUTE = make_grid(weight=(0.004, 0.008, 0.016))
"""Weights of sums of absolute values, which are some thirty times the Frobenius norm here."""
_RADII = make_grid(epsilon=(0.05, 0.1, 0.2))


_DECAYS: Grid = [{"weight_decay": decay} for decay in (0.0, 1e-5, 1e-4)]
FORMS = {
    "Density (plain)": "plain",
    "Density (stable)": "stable",
    "Density (efficient)": "efficient",
    "Density (log-sum-exp)": "logsumexp",
}
PAPERS_GRIDS: Mapping[str, Grid] = {
    "ST": _DECAYS,
    "SoftPlus": _DECAYS,
    **dict.fromkeys(FORMS, make_grid(weight=(0.1, 0.2, 0.4))),
    "IG-SUM": [
        {"settings": {"num_steps": 7, "num_segments": 50, "epsilon": epsilon}}
        for epsilon in (0.05, 0.1, 0.2)
    ],
}
"""Candidates where the rate is the paper's; a net without a penalty has decays."""


def _density(name: str, form: str) -> Method:
    overrides = {"recipe": "density", "settings": {"form": form}}
    return Method(name=name, overrides=overrides, grid=_WEIGHTS)


METHODS = (
    Method(name="AT (FGSM)", overrides={"recipe": "at_fgsm"}, grid=_RADII),
    Method(name="AT (PGD)", overrides={"recipe": "at_pgd"}, grid=_RADII),
    Method(name="ST", overrides={"recipe": "erm"}, grid=_RATES),
    Method(name="SoftPlus", overrides={"recipe": "erm", **_SMOOTH}, grid=_RATES),
    Method(
        name="Hessian",
        overrides={"recipe": "hessian", **_SMOOTH},
        grid=make_grid(weight=(1e-2, 1e-1, 1.0)),
    ),
    Method(name="InputGrad", overrides={"recipe": "input_gradient"}, grid=_WEIGHTS),
    Method(
        name="InputGrad (loss)",
        overrides={"recipe": "input_gradient", "settings": {"target": "loss"}},
        grid=make_grid(weight=(1.0, 2.0, 2.5)),
    ),
    Method(
        name="InputGrad (p = 1)",
        overrides={"recipe": "input_gradient", "settings": {"norm": "l1"}},
        grid=_ABSOLUTE,
    ),
    Method(
        name="IG-SUM",
        overrides={"recipe": "ig_sum", "settings": {"num_segments": 2, "num_steps": 1}},
        grid=_RADII,
    ),
    *(_density(name, form) for name, form in FORMS.items()),
    Method(
        name="Density (p = 1)",
        overrides={"recipe": "density", "settings": {"form": "logsumexp", "p": 1.0}},
        grid=_ABSOLUTE,
    ),
)


def _attack_measures() -> Iterator[Measure]:
    for norm in NORMS:
        for epsilon in EPSILONS:
            key, name = f"adversarial_accuracy/{norm}/{epsilon:g}", f"PGD-20 {norm} {epsilon:g}"
            yield Measure(
                key=f"{key}/{PAPERS_STEP:g}", name=f"{name}, step {PAPERS_STEP:g}", percent=True
            )
            yield Measure(key=key, name=name, percent=True)


PROTOCOL = (
    "Settings are those with the smallest leakage on validation data among those with an accuracy "
    "of at least 94 % there, a point below what ST has. The paper, whose accuracies fall to 93.05, "
    "does not say how it chose; from 93 % on, Density's weight would be 0.5, which Figure 4 has. "
    "That net leaks less and has l2 attacks of 0.1 succeed as often as ST, test results which were "
    "seen before the floor was raised; `density-unseen` has both at five seeds that were not.",
    "Leakage is in units of the logits, which differ with the length of training, so that the "
    "paper's values are not ours; differences between methods are what to compare.",
    "The paper's PGD has 20 steps of 0.01, which go 0.2 at most from the drawn point they begin "
    "at; columns without a step have steps of an eighth of the radius. An image that a smaller "
    "radius fooled counts as fooled at the larger ones.",
    "The leaked share, the part of all attributions that lies in the null block, does not change "
    "with the scale of the logits as leakage does.",
    "InputGrad is the norm of the gradient of the label's logit, as the paper writes it; InputGrad "
    "(loss) that of the loss, as in the work it cites (Ross & Doshi-Velez 2018).",
    "With p = 1 the penalty is the sum of absolute values of the gradient in place of its length; "
    "the paper's supplement has norms from 1.2 to 2.8 and finds that smaller ones leak less.",
    "Density's forms compute the same number; where `plain` overflows, its run fails.",
    "Hessian's net has Softplus, without which a Hessian is zero.",
    "ST and SoftPlus have no penalty to tune, so their candidates are learning rates; those of "
    "adversarial training and IG-SUM are radii.",
    "IG-SUM attacks in one step and has two segments in the small budget (Chen et al.: 7 and 50).",
    "Hidden layers of 512 and Adam with a cosine schedule; the paper names neither the width nor "
    "the optimiser.",
    "5,000 of the 60,000 training images are held out to choose settings. Candidates of Density "
    "and InputGrad lie around weights of trial runs whose test results were seen.",
)


def density_table1() -> Suite:
    """Leakage and adversarial accuracy on BlockMNIST (density smoothing's Table 1)."""
    return make_suite(
        PAPER,
        "density-table1",
        "Feature leakage on BlockMNIST, two hidden layers",
        "Table 1",
        base=BASE,
        variants=(Variant(name="block-mnist", title="BlockMNIST, 1568-512-512-10 net"),),
        methods=METHODS,
        measures=(
            Measure(key="feature_leakage", name="leakage"),
            Measure(key="feature_leakage/share", name="leaked share", percent=True),
            Measure(key="accuracy", name="accuracy", percent=True),
            *_attack_measures(),
        ),
        select_by="feature_leakage",
        select_if=("accuracy", FLOOR),
        budgets={
            "small": Budget(
                seeds=(0, 1, 2),
                overrides={
                    "data_settings": {"subset": 6000},
                    "epochs": 40,
                    "batch_size": 100,
                    "metric_settings": {
                        "feature_leakage": {"max_samples": 2000},
                        "adversarial_accuracy": {"max_samples": 1000},
                    },
                },
                protocol=(
                    "6,000 training images, 40 epochs of batches of 100; the paper has 80 epochs "
                    "of all. Few images often rather than many a few times: after 6 epochs of "
                    "30,000 ST is not yet as fragile as the paper's. Leakage is measured on 2,000 "
                    "images, attacks on 1,000.",
                ),
            ),
            "paper": Budget(
                seeds=(0, 1, 2),
                overrides={"epochs": 80, "batch_size": 100, "lr": 1e-4, "scheduler": "constant"},
                grids={"block-mnist": PAPERS_GRIDS},
                protocol=(
                    "80 epochs at a constant rate of 0.0001, as in the paper. It names neither "
                    "the batch size nor the optimiser. Weights of Density are the two of the "
                    "supplement's Figure 7 and a larger one; it names none of other penalties.",
                ),
            ),
        },
        protocol=PROTOCOL,
    )


SEEDS = (3, 4, 5, 6, 7)
_ATTACKS = [f"PGD-20 {norm} {epsilon:g}" for norm in NORMS for epsilon in EPSILONS]
SHOWN = ("leakage", "leaked share", "accuracy", *_ATTACKS)


def _weight(value: float) -> Overrides:
    return {"settings": {"weight": value}}


_ST: Overrides = {"lr": 4e-3}
SETTINGS: Mapping[str, Mapping[str, Overrides]] = {
    "floor of 94 %": {
        "ST": _ST,
        "InputGrad": _weight(0.25),
        "Density (log-sum-exp)": _weight(0.25),
        "Density (p = 1)": _weight(0.016),
    },
    "floor of 93 %": {
        "ST": _ST,
        "InputGrad": _weight(0.5),
        "Density (log-sum-exp)": _weight(0.5),
        "Density (p = 1)": _weight(0.032),
    },
}

UNSEEN_PROTOCOL = (
    "Nothing is chosen here. A floor of 94 %: the settings that Table 1 chose at seed 0. A floor "
    "of 93 %: weights one step up, where nets still have 93 % right.",
    "The floor of 94 % was settled after test results at seeds 0, 1 and 2 were seen, so these five "
    "seeds are other ones; all that was decided was decided before they ran.",
)


def density_unseen() -> Suite:
    """Table 1's chosen settings at five seeds that took no part in any choice."""
    whole = density_table1()
    names = SETTINGS["floor of 94 %"]
    return make_suite(
        PAPER,
        "density-unseen",
        "Table 1's settings at five other seeds, BlockMNIST",
        "Table 1",
        base=BASE,
        variants=tuple(
            Variant(name=name, grids={method: [chosen] for method, chosen in settings.items()})
            for name, settings in SETTINGS.items()
        ),
        methods=[method for method in whole.methods if method.name in names],
        measures=[measure for measure in whole.measures if measure.name in SHOWN],
        select_by="accuracy",
        budgets={
            name: replace(
                budget,
                seeds=SEEDS,
                grids={} if name == "small" else {one: {"ST": [{}]} for one in SETTINGS},
            )
            for name, budget in whole.budgets.items()
        },
        protocol=(*UNSEEN_PROTOCOL, *PROTOCOL[1:6]),
        layout="columns",
    )
