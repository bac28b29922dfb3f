"""Every mask-guided recipe as it comes, on data that its defaults were not chosen on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rightreasons.benchmark.cell import merge_overrides
from rightreasons.benchmark.measure import Measure
from rightreasons.benchmark.suite import Budget, Method, Overrides, Suite, Variant, make_suite
from rightreasons.benchmark.suites.defaults_sets import (
    CASES,
    DEVELOPMENT,
    FEW_MASKS,
    GRIDS,
    NATURAL,
    NO_SHORTCUT,
    TEST,
)
from rightreasons.objectives.recipes import RECIPES
from rightreasons.strategies import STRATEGIES

__all__ = [
    "CONTROLLED",
    "GUIDED",
    "NETS",
    "ORACLE",
    "PREDICTED",
    "REFERENCES",
    "defaults",
    "variant_name",
]

ERM, ORACLE, GROUPS, MASKTUNE = "erm", "oracle", "group_dro", "masktune"
REFERENCES = (ORACLE, GROUPS, ERM)
GUIDED = (
    *("counterexamples", "r3", "smooth_r3", "rand_r4", "adv_r4", "reff", "pgd_ex"),
    *("ibp_ex", "cert_r4"),
)
"""Recipes that learn from masks, none of them tuned here."""

PREDICTED = "counterexamples, predicted masks"
"""ReFF's annotator learns from the few masks and predicts the others; then counterexamples."""
CONTROLLED = {f"{name}, controlled": name for name in ("r3", "adv_r4")}
"""The same recipes with a controlled weight."""
CONTROLLED_R3 = "r3, controlled"

SMALL_CNN, RESNET, EFFICIENTNET, MLP = "small CNN", "ResNet-18", "EfficientNet-Lite0", "MLP"
NETS: Mapping[str, Overrides] = {
    SMALL_CNN: {"model": "small_cnn"},
    RESNET: {"model": "resnet18", "model_settings": {"width": 0.25, "stem": "imagenet"}},
    EFFICIENTNET: {
        "model": "efficientnet_lite0",
        "model_settings": {"pretrained": True},
        "data_settings": {"size": 64},  # its last maps have 2 x 2 pixels even so
    },
    MLP: {"model": "mlp"},
}
_CORE = ("counterexamples", "r3", "reff")
_QUICK = ("counterexamples", "r3")
_WITHOUT_BOUNDS = tuple(name for name in GUIDED if name not in ("ibp_ex", "cert_r4"))

BASE: Overrides = {
    "optimizer": "adam",
    "scheduler": "cosine",
    "lr": 1e-3,
    "batch_size": 50,
    "metrics": ["accuracy", "group_accuracy"],
    "validation_metrics": ["accuracy", "swap_accuracy"],
}
MEASURES = (
    Measure(key="group_accuracy/worst", name="worst group", percent=True),
    Measure(key="group_accuracy/average", name="average group", percent=True),
    Measure(key="accuracy", name="accuracy", percent=True),
    Measure(key="swap_accuracy", name="after a swap, validation", part="validation", percent=True),
)
PROTOCOL = (
    "The table is ours. Every recipe and strategy has its default settings, the same epochs, "
    "batches and learning rate; nothing is chosen. Rows name these settings: a changed default is "
    "another row.",
    f"Defaults may be chosen on {', '.join(DEVELOPMENT)}; the cases of pets_tag belong to them. "
    f"{', '.join(TEST)} are run once, when the choice is made.",
    "The oracle is ERM on training data in which the shortcut tells nothing. waterbirds and "
    "celeba_hair have none, so group DRO, which knows the groups in training, takes its place.",
    "Masks: tags and bands of Pets, swatches, squares and patches of digits, artefacts, textures "
    "behind digits, backgrounds of birds, everything outside a lesion, one ellipse over all faces.",
    "Cross-entropy counts malignant lesions and melanomas four times, for every method.",
    "20 masks: all other training images count as not annotated. Wrong masks: half of them are "
    "shifted. No shortcut: tags are random in training, so there is nothing to gain.",
    "The number of images of decoy_ham, the pixels and epochs of EfficientNet-Lite0 and the epochs "
    "of ResNet-18 were settled by test figures of ERM and the oracle at seed 0. The aim was that "
    "ERM takes the shortcut and the oracle learns. Before that, guided recipes had run on the test "
    "sets for one epoch of 100 images, to see that they work; their figures were not looked at.",
    "Not all test sets are new: decoy_ham, with the artefacts it has here, and textured_mnist also "
    "have suites in which settings of guided recipes were chosen.",
    "decoy_digits is a table: every pixel is a column, and the columns of the patch are masked.",
)
SMALL_PROTOCOL = (
    "Photographs have 48 pixels a side, 64 for EfficientNet-Lite0, all other images 28. There are "
    "1,000 to 2,100 training images. ResNet-18 has a quarter of its channels.",
    "Slow recipes do not run in every block: all run on decoy_digits, those without bounds on "
    "biased_mnist, the quick ones elsewhere. A controlled weight runs on the development sets and "
    "where masks cover most of an image.",
)


def variant_name(data: str, net: str) -> str:
    """The name of a data set's block with a net."""
    return f"{data}, {net}"


def defaults() -> Suite:
    """Every mask-guided recipe as it comes, on development and on test sets."""
    return make_suite(
        "",
        "defaults",
        "Recipes as they come, on many data sets",
        "no table of a paper",
        base=BASE,
        variants=_variants(),
        methods=tuple(_methods()),
        measures=MEASURES,
        select_by="swap_accuracy",
        budgets={
            "small": Budget(
                seeds=(0, 1, 2),
                variants=_epochs(factor=1),
                protocol=SMALL_PROTOCOL,
            ),
            "paper": Budget(
                seeds=(0, 1, 2, 3, 4),
                variants=_epochs(factor=4),
                protocol=("Four times the epochs of the small budget, and five seeds.",),
            ),
        },
        protocol=PROTOCOL,
        layout="reference",
        references=REFERENCES,
    )


def _methods() -> list[Method]:
    recipes = {name: {"recipe": name, "settings": _plain_defaults(name)} for name in GUIDED}
    overrides: dict[str, Overrides] = {
        ORACLE: {"recipe": "erm", "data_settings": {"oracle": True}},
        ERM: {"recipe": "erm"},
        GROUPS: {"recipe": "group_dro"},
        **recipes,
        **{
            name: {
                "recipe": recipe,
                "settings": {**_plain_defaults(recipe), "weight": "controlled"},
            }
            for name, recipe in CONTROLLED.items()
        },
        PREDICTED: {
            **recipes["counterexamples"],
            "strategy": "reff",
            "strategy_settings": dict(STRATEGIES.settings("reff")),
        },
        MASKTUNE: {
            "recipe": "erm",
            "strategy": "masktune",
            "strategy_settings": dict(STRATEGIES.settings("masktune")),
        },
    }
    return [Method(name=name, overrides=one) for name, one in overrides.items()]


def _plain_defaults(recipe: str) -> dict[str, Any]:
    """The defaults of a recipe, written out so that rows of other defaults are other rows."""
    # what the data set says, what all recipes have, and what came later and is off
    ours = ("class_weights", "weight_decay", "strata")
    settings = RECIPES.settings(recipe)
    return {name: value for name, value in settings.items() if name not in ours}


def _blocks() -> list[tuple[str, str, Sequence[str]]]:
    """Data set, net and guided methods of each block, in the order of the table."""
    quick = (*_CORE, "smooth_r3", MASKTUNE)
    return [
        ("pets_tag", SMALL_CNN, (*_CORE, *CONTROLLED, MASKTUNE)),
        ("decoy_derm", SMALL_CNN, (*quick, CONTROLLED_R3)),
        ("biased_mnist", SMALL_CNN, (*_WITHOUT_BOUNDS, CONTROLLED_R3, MASKTUNE)),
        # a table has no maps of layers
        ("decoy_digits", MLP, (CONTROLLED_R3, *(name for name in GUIDED if name != "reff"))),
        ("pets_tag", RESNET, _CORE),
        ("pets_tag", EFFICIENTNET, (*_QUICK, *CONTROLLED)),
        (FEW_MASKS, SMALL_CNN, (*_CORE, CONTROLLED_R3, PREDICTED)),
        *((name, SMALL_CNN, (*_CORE, CONTROLLED_R3)) for name in CASES if name != FEW_MASKS),
        ("pets_band", SMALL_CNN, _CORE),
        ("decoy_ham", SMALL_CNN, _CORE),
        ("textured_mnist", SMALL_CNN, (*quick, CONTROLLED_R3)),
        ("waterbirds", SMALL_CNN, _CORE),
        ("isic2017", SMALL_CNN, (*_CORE, CONTROLLED_R3)),
        ("celeba_hair", SMALL_CNN, _CORE),
        ("decoy_ham", RESNET, _QUICK),
        ("pets_band", EFFICIENTNET, ("counterexamples",)),
        ("waterbirds", EFFICIENTNET, ("counterexamples",)),
    ]


def _variants() -> tuple[Variant, ...]:
    sets = {**DEVELOPMENT, **TEST, **CASES}
    return tuple(
        Variant(
            name=variant_name(data, net),
            overrides=merge_overrides(sets[data], NETS[net]),
            grids=GRIDS.get(data, {}),
            methods=[*_references_of(data), ERM, *guided],
        )
        for data, net, guided in _blocks()
    )


def _references_of(data: str) -> tuple[str, ...]:
    if data == NO_SHORTCUT:  # ERM itself is the oracle there
        return ()
    return (GROUPS,) if data in NATURAL else (ORACLE,)


def _epochs(*, factor: int) -> dict[str, Overrides]:
    """Passes over the data: few from ImageNet's weights, many over a small table."""
    of_net = {SMALL_CNN: 8, RESNET: 16, EFFICIENTNET: 4, MLP: 30}
    names = {(data, net): variant_name(data, net) for data, net, _ in _blocks()}
    return {name: {"epochs": factor * of_net[net]} for (_, net), name in names.items()}
