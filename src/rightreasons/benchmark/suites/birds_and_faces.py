"""Waterbirds and CelebA: MaskTune's Tables 1 and 2, and density smoothing's Table 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rightreasons.benchmark.measure import Measure
from rightreasons.benchmark.suite import Budget, Grid, Method, Overrides, Suite, Variant
from rightreasons.benchmark.suites.shared import make_grid, make_suite

__all__ = ["density_table2", "masktune_celeba", "masktune_waterbirds"]

PRETRAINED, SLIM = "pretrained", "slim"
BIRDS: Overrides = {"data": "waterbirds", "data_settings": {"size": 96}}
FACES: Overrides = {"data": "celeba_hair", "data_settings": {"size": 64}}

NETS: Mapping[str, Overrides] = {
    PRETRAINED: {
        "model": "efficientnet_lite0",
        "model_settings": {"pretrained": True},
        "frozen_statistics": True,
        "lr": 3e-4,
    },
    SLIM: {"model": "resnet18", "model_settings": {"width": 0.25, "stem": "imagenet"}, "lr": 1e-3},
}
TITLES = {
    PRETRAINED: "EfficientNet-Lite0, from ImageNet's weights",
    SLIM: "ResNet-18, a quarter as wide, from scratch",
}
EPOCHS = {PRETRAINED: 5, SLIM: 20}

BASE: Overrides = {
    "optimizer": "adam",
    "scheduler": "cosine",
    "batch_size": 64,
    "metrics": ["accuracy", "group_accuracy"],
    "select": "worst_group",
}
BALANCED: Overrides = {"data_settings": {"balance": "groups"}}


def _strategy(**values: Sequence[Any]) -> Grid:
    """Make candidates of a strategy: the first value of each setting, the second of each."""
    return [{"strategy_settings": one["settings"]} for one in make_grid(**values)]


_FACTORS = (1.0, 3.0)
_RATES: Mapping[str, Grid] = {
    net: [{"lr": factor * overrides["lr"]} for factor in _FACTORS]
    for net, overrides in NETS.items()
}

METHODS: Mapping[str, Overrides] = {
    "ERM": {"recipe": "erm"},
    "ERM, balanced": {"recipe": "erm", **BALANCED},
    "Group DRO": {"recipe": "group_dro", **BALANCED},
    "CVaR DRO": {"recipe": "cvar_dro"},
    "LfF": {"strategy": "lff"},
    "SD": {"recipe": "spectral_decoupling"},
    "JTT": {"strategy": "jtt"},
    "DivDis": {"strategy": "divdis"},
    "DFR": {"strategy": "dfr"},
    "RandMask": {"strategy": "random_mask", "strategy_settings": {"tune_lr": 1e-4}},
    "MaskTune": {"strategy": "masktune", "strategy_settings": {"tune_lr": 1e-4}},
}
GRIDS: Mapping[str, Grid] = {
    "Group DRO": make_grid(step_size=(0.01, 0.1)),
    "CVaR DRO": make_grid(alpha=(0.1, 0.3)),
    "LfF": _strategy(q=(0.7, 0.3)),
    "SD": make_grid(weight=(0.1, 0.01)),
    "JTT": _strategy(first_epochs=(1, 1), upweight=(5, 20)),
    "DivDis": _strategy(weight=(10.0, 0.1), balance=(10.0, 0.1)),
    "DFR": _strategy(head_decay=(1e-3, 1e-1)),
    "MaskTune": _strategy(k=(2.0, 1.5)),
}
GUIDED: Mapping[str, Overrides] = {
    "R3": {"recipe": "r3"},
    "Adv-R4": {"recipe": "adv_r4", "settings": {"num_steps": 1}},
    "ReFF": {"recipe": "reff", "settings": {"ramp": 0.3}},
    "counterexamples": {"recipe": "counterexamples"},
}
GUIDED_GRIDS: Mapping[str, Grid] = {
    "R3": make_grid(weight=(0.1, 1.0)),
    "Adv-R4": make_grid(weight=(0.1, 1.0)),
    "ReFF": make_grid(weight=(1.0, 30.0)),
    "counterexamples": make_grid(source=("background", "mix")),
}

ACCURACY = (
    Measure(key="group_accuracy/worst", name="worst group", percent=True),
    Measure(key="group_accuracy/weighted", name="average", percent=True),
)
RCS = Measure(key="relative_core_sensitivity", name="RCS")

PROTOCOL = (
    "Nets and images are small, to fit two cores: EfficientNet-Lite0 with ImageNet's weights and a "
    "slim ResNet-18, where the papers have a ResNet-50 or ResNet-34.",
    "Settings and epochs are chosen by the worst group of validation data, which knows the groups; "
    "MaskTune's paper does not use them. Figures of methods that the paper lists twice are those "
    "with groups in validation.",
    "ERM, balanced and Group DRO have as many samples of each group in an epoch, so they know the "
    "groups in training; so does DFR, in validation. DivDis reads the inputs of the test set.",
    "The average is weighted by the groups' numbers in training, as in group DRO's code.",
    "CIM is left out: it cannot be stated from this paper.",
)
BIRDS_PROTOCOL = (
    "Birds, labels and parts are the official ones, the photographs behind them are others, and "
    "landbirds at test are fewer: comparable in kind, not equal.",
    "R3, Adv-R4, ReFF and counterexamples have masks of everything but the bird; the paper has "
    "none of them. RCS has the bird as core: from -1, background alone, to 1, bird alone.",
)
FACES_PROTOCOL = ("9,500 training faces of 64 pixels, in parts that share no person.",)

PAPERS_NET: Overrides = {
    "model": "resnet50",
    "weights": "resnet50-0676ba61.pth",
    "frozen_statistics": False,
    "data_settings": {"size": 224},
    "optimizer": "sgd",
    "momentum": 0.9,
    "weight_decay": 1e-4,
    "scheduler": "constant",
    "lr": 1e-4,
    "batch_size": 512,
    "epochs": 20,
}


def masktune_celeba() -> Suite:
    """CelebA: methods against shortcuts without masks, worst groups (MaskTune's Table 1)."""
    return _masktune("masktune-celeba", "CelebA, blond or dark hair", "Table 1", FACES)


def masktune_waterbirds() -> Suite:
    """Waterbirds: methods without masks and with the birds' (MaskTune's Table 2)."""
    return _masktune("masktune-waterbirds", "Waterbirds", "Table 2", BIRDS)


def _masktune(name: str, title: str, table: str, data: Overrides) -> Suite:
    has_masks = data is BIRDS
    methods = {**METHODS, **(GUIDED if has_masks else {})}
    metrics = [*BASE["metrics"], *([RCS.key] if has_masks else [])]
    return make_suite(
        "asgari2022masktune",
        name,
        title,
        table,
        base={
            **BASE,
            **data,
            "metrics": metrics,
            "validation_metrics": BASE["metrics"],
        },
        variants=[
            Variant(
                name=net,
                title=TITLES[net],
                overrides=NETS[net],
                grids={one: {**GRIDS, **GUIDED_GRIDS}.get(one, _RATES[net]) for one in methods},
            )
            for net in NETS
        ],
        methods=[Method(name=one, overrides=overrides) for one, overrides in methods.items()],
        measures=(*ACCURACY, RCS) if has_masks else ACCURACY,
        select_by="group_accuracy/worst",
        budgets=_budgets(
            methods,
            PAPERS_NET,
            "A ResNet-50 that begins with torchvision's weights for ImageNet (in the data folder), "
            "SGD at a rate of 0.0001, 20 epochs of batches of 512, as the paper has it on CelebA; "
            "on Waterbirds it does not say. Other methods have their own papers' settings.",
        ),
        protocol=(*PROTOCOL, *(BIRDS_PROTOCOL if has_masks else FACES_PROTOCOL)),
    )


def _budgets(methods: Mapping[str, Overrides], papers: Overrides, note: str) -> dict[str, Budget]:
    """Make both budgets: with the paper's, the pretrained net is the paper's own."""
    return {
        "small": Budget(
            seeds=(0, 1, 2),
            variants={net: {"epochs": EPOCHS[net]} for net in NETS},
            protocol=(
                f"{EPOCHS[PRETRAINED]} epochs for the pretrained net, {EPOCHS[SLIM]} for the slim "
                "one, about two hours on two cores.",
            ),
        ),
        "paper": Budget(
            seeds=(0, 1, 2),
            variants={PRETRAINED: papers, SLIM: {"epochs": EPOCHS[SLIM]}},
            grids={PRETRAINED: dict.fromkeys(methods, ({},))},
            protocol=(note, f"The variant {SLIM} is ours and stays as it is."),
        ),
    }


DENSITY: Mapping[str, Overrides] = {
    "Vanilla": {"recipe": "erm", **BALANCED},
    "Group DRO": {"recipe": "group_dro", **BALANCED},
    "Score-Matching": {"recipe": "score_matching", **BALANCED},
    "InputGrad": {"recipe": "input_gradient", **BALANCED},
    "Density": {"recipe": "density", **BALANCED},
    "Group DRO + Density": {"recipe": "group_dro_density", **BALANCED},
}
_WEIGHTS = make_grid(weight=(0.1, 1.0))
DENSITY_GRIDS: Mapping[str, Grid] = {
    "Group DRO": make_grid(step_size=(0.01, 0.1)),
    "Score-Matching": make_grid(weight=(1e-4, 1e-3)),
    "InputGrad": _WEIGHTS,
    "Density": _WEIGHTS,
    "Group DRO + Density": _WEIGHTS,
}
PLACES: Mapping[str, tuple[Overrides, str]] = {
    "celeba": (FACES, SLIM),
    "waterbirds": (BIRDS, SLIM),
    "waterbirds, pretrained": (BIRDS, PRETRAINED),
}
DENSITY_PROTOCOL = (
    "Every method has as many samples of each group in an epoch, as in the paper, where it is so "
    "in each batch. Settings are chosen by the worst group of validation data.",
    "Nets are slim, or an EfficientNet-Lite0 with ImageNet's weights; the paper has a ResNet-34. "
    "It does not name the weights of penalties.",
)
PAPERS_REGULARISED = 1e-5
"""The paper's rate with a penalty: a tenth of that without."""


def density_table2() -> Suite:
    """CelebA and Waterbirds: Group DRO and penalties of gradients (density's Table 2)."""
    plain, penalised = [{"lr": 1e-4}], [{"lr": PAPERS_REGULARISED}]
    papers: Mapping[str, Sequence[Overrides]] = {
        name: plain if name in ("Vanilla", "Group DRO") else penalised for name in DENSITY
    }
    return make_suite(
        "yang2024regulating",
        "density-table2",
        "CelebA-Hair and Waterbirds, Group DRO and penalties",
        "Table 2",
        base=BASE,
        variants=[
            Variant(
                name=name,
                title=TITLES[net],
                overrides={**data, **NETS[net]},
                grids={one: DENSITY_GRIDS.get(one, _RATES[net]) for one in DENSITY},
            )
            for name, (data, net) in PLACES.items()
        ],
        methods=[Method(name=one, overrides=overrides) for one, overrides in DENSITY.items()],
        measures=(ACCURACY[0], Measure(key="accuracy", name="overall", percent=True)),
        select_by="group_accuracy/worst",
        budgets={
            "small": Budget(
                seeds=(0, 1, 2),
                variants={name: {"epochs": EPOCHS[net]} for name, (_, net) in PLACES.items()},
                protocol=("20 epochs, 5 of the pretrained net, two hours on two cores.",),
            ),
            "paper": Budget(
                seeds=(0, 1, 2),
                overrides={
                    "model": "resnet34",
                    "weights": "resnet34-b627a593.pth",
                    "frozen_statistics": False,
                    "data_settings": {"size": 224},
                    "scheduler": "constant",
                    "select": "none",
                },
                variants={
                    "celeba": {"epochs": 50},
                    "waterbirds": {"epochs": 300},
                    "waterbirds, pretrained": {"epochs": 300},
                },
                grids=dict.fromkeys(PLACES, papers),
                protocol=(
                    "A ResNet-34 for 50 epochs on CelebA and 300 on Waterbirds, at a rate of "
                    "0.0001, with a penalty a tenth of it. It does not name optimiser, batch size "
                    "or initial weights; here Adam, 64 and torchvision's for ImageNet.",
                ),
            ),
        },
        protocol=DENSITY_PROTOCOL,
    )
