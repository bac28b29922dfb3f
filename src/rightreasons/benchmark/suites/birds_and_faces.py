"""Waterbirds and CelebA: MaskTune's Tables 1 and 2, and density smoothing's Table 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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

__all__ = ["density_table2", "masktune_celeba", "masktune_waterbirds"]

NET, SIDE, RATE = "resnet", 48, 1e-3
BIRDS: Overrides = {"data": "waterbirds", "data_settings": {"size": SIDE}}
FACES: Overrides = {"data": "celeba_hair", "data_settings": {"size": SIDE}}
EPOCHS = {"waterbirds": 12, "celeba_hair": 5}

SLIM: Overrides = {
    "model": "resnet18",
    "model_settings": {"width": 0.25, "stem": "imagenet"},
    "lr": RATE,
}
TITLE = "ResNet-18, a quarter as wide, from scratch"

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


_RATES: Grid = [{"lr": RATE}, {"lr": 3 * RATE}]
STAGE = "layer2"
"""Its maps have 6 x 6 cells here; those of the last stage have 2 x 2."""

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
    "MaskTune": _strategy(k=(2.0, 1.5), layer=(STAGE, STAGE)),
}
GUIDED: Mapping[str, Overrides] = {
    "R3": {"recipe": "r3"},
    "Adv-R4": {"recipe": "adv_r4", "settings": {"num_steps": 1}},
    "ReFF": {"recipe": "reff", "settings": {"ramp": 0.3}},
    "counterexamples": {"recipe": "counterexamples"},
}
FACE_GUIDED: Mapping[str, Overrides] = {
    "counterexamples": {"recipe": "counterexamples", "data_settings": {"mask": "face"}},
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
    "A slim ResNet-18 from scratch and images of 48 pixels, to fit two cores; the papers have a "
    "ResNet-50 or ResNet-34 of ImageNet's weights and 224 pixels. EfficientNet-Lite0 of ImageNet's "
    "weights takes half an hour a run here, so it has no rows.",
    "Settings and epochs are chosen by the worst group of validation data, which knows the groups; "
    "MaskTune's paper does not use them. Figures of methods that the paper lists twice are those "
    "with groups in validation.",
    "ERM, balanced and Group DRO have as many samples of each group in an epoch, so they know the "
    "groups in training; so does DFR, in validation. DivDis reads the inputs of the test set.",
    "MaskTune's maps are those of the second of four stages, 6 x 6 cells; the paper's have 7 x 7.",
    "The average is weighted by the groups' numbers in training, as in group DRO's code.",
    "CIM is left out: it cannot be stated from this paper.",
)
BIRDS_PROTOCOL = (
    "Birds, labels and parts are the official ones, the photographs behind them are others, and "
    "landbirds at test are fewer: comparable in kind, not equal.",
    "R3, Adv-R4, ReFF and counterexamples have masks of everything but the bird; the paper has "
    "none of them. RCS has the bird as core: from -1, background alone, to 1, bird alone.",
)
FACES_PROTOCOL = (
    "9,500 training faces in parts that share no person.",
    "Counterexamples exchange an ellipse over the face, the same in every image, which tells the "
    "sex; the paper has none.",
)

WITHOUT_GROUPS: Mapping[str, Overrides] = {
    **dict.fromkeys(("ERM", "RandMask", "DivDis"), {"select": "none"}),
    "MaskTune": {"select": "accuracy"},  # for the maps; fine-tuning goes on from the last weights
}
"""Methods that the paper lists without groups in validation."""
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
    methods = {**METHODS, **(GUIDED if has_masks else FACE_GUIDED)}
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
                name=NET,
                title=TITLE,
                overrides=SLIM,
                grids={one: {**GRIDS, **GUIDED_GRIDS}.get(one, _RATES) for one in methods},
            )
        ],
        methods=[Method(name=one, overrides=overrides) for one, overrides in methods.items()],
        measures=(*ACCURACY, RCS) if has_masks else ACCURACY,
        select_by="group_accuracy/worst",
        budgets={
            "small": Budget(
                seeds=(0, 1, 2),
                overrides={"epochs": EPOCHS[data["data"]]},
                protocol=(f"{EPOCHS[data['data']]} epochs, about half an hour on two cores.",),
            ),
            "paper": Budget(
                seeds=(0, 1, 2),
                overrides=PAPERS_NET,
                grids={NET: {one: [WITHOUT_GROUPS.get(one, {})] for one in methods}},
                protocol=(
                    "A ResNet-50 that begins with torchvision's weights for ImageNet (in the data "
                    "folder), SGD at a rate of 0.0001, 20 epochs of batches of 512, as the paper "
                    "has it on CelebA; on Waterbirds it does not say. ERM, MaskTune, RandMask and "
                    "DivDis know no groups and take the last epoch; MaskTune's maps come from the "
                    "epoch with the best accuracy. The paper does not state the "
                    "settings of other methods: these have the defaults of this library.",
                ),
            ),
        },
        protocol=(*PROTOCOL, *(BIRDS_PROTOCOL if has_masks else FACES_PROTOCOL)),
    )


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
PLACES: Mapping[str, Overrides] = {"celeba": FACES, "waterbirds": BIRDS}
DENSITY_PROTOCOL = (
    "Every method has as many samples of each group in an epoch, as in the paper, where it is so "
    "in each batch. Settings are chosen by the worst group of validation data.",
    "A slim ResNet-18 from scratch and images of 48 pixels, to fit two cores; the paper has a "
    "ResNet-34. It does not name the weights of penalties.",
)
PAPERS_REGULARISED = 1e-5
"""The paper's rate with a penalty: a tenth of that without."""


def density_table2() -> Suite:
    """CelebA and Waterbirds: Group DRO and penalties of gradients (density's Table 2)."""
    rates = dict.fromkeys(DENSITY, PAPERS_REGULARISED) | {"Vanilla": 1e-4, "Group DRO": 1e-4}
    return make_suite(
        "yang2024regulating",
        "density-table2",
        "CelebA-Hair and Waterbirds, Group DRO and penalties",
        "Table 2",
        base=BASE,
        variants=[
            Variant(
                name=name,
                title=TITLE,
                overrides={**data, **SLIM},
                grids={one: DENSITY_GRIDS.get(one, _RATES) for one in DENSITY},
            )
            for name, data in PLACES.items()
        ],
        methods=[Method(name=one, overrides=overrides) for one, overrides in DENSITY.items()],
        measures=(ACCURACY[0], Measure(key="accuracy", name="overall", percent=True)),
        select_by="group_accuracy/worst",
        budgets={
            "small": Budget(
                seeds=(0, 1, 2),
                variants={name: {"epochs": EPOCHS[data["data"]]} for name, data in PLACES.items()},
                protocol=("5 epochs on CelebA, 12 on Waterbirds; an hour on two cores.",),
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
                },
                grids=dict.fromkeys(PLACES, {name: [{"lr": lr}] for name, lr in rates.items()}),
                protocol=(
                    "A ResNet-34 for 50 epochs on CelebA and 300 on Waterbirds, at a rate of "
                    "0.0001, with a penalty a tenth of it. It does not name optimiser, batch size "
                    "or initial weights; here Adam, 64 and torchvision's for ImageNet.",
                ),
            ),
        },
        protocol=DENSITY_PROTOCOL,
    )
