"""What the ReFF paper does on Textured MNIST, setting by setting."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from rightreasons.benchmark.suite import Budget, Grid, Overrides

__all__ = ["PAPERS_BUDGET", "PAPERS_DIGITS", "PAPERS_GRIDS", "give_paper"]

PAPERS_LAYERS = ("layer1", "layer2", "layer3", "layer4")
PAPERS_DIGITS = (223, 112, 56)
"""Sides of the paper's digits, where ours have 31, 16 and 8 pixels."""

PAPERS_BUDGET = Budget(
    seeds=(0, 1, 2),
    overrides={
        "data_settings": {"num_train": 54000, "num_validation": 6000, "num_test": 10000},
        "epochs": 50,
        "batch_size": 32,
        "lr": 0.01,
        "optimizer": "sgd",
        "momentum": 0.8,
        "scheduler": "constant",
        "weight_decay": 1e-5,
        "metric_settings": {"cam_mass": {"layer": list(PAPERS_LAYERS)}},
    },
    protocol=(
        "The paper's images, net and training: DTD's photographs, 224 pixels, a ResNet-50 that "
        "begins with torchvision's weights for ImageNet (resnet50-0676ba61.pth in the data "
        "folder), SGD with momentum 0.8. ABN begins without them, since its layers have other "
        "names. The paper has no R3, Adv-R4, counterexamples nor an oracle: they have our "
        "weights.",
    ),
)

PAPERS_DATA: Overrides = {
    "size": 224,
    "textures": "dtd",
    "textures_per_class": 120,
    "background_classes": 37,
}
_LAYERS: Overrides = {"layers": list(PAPERS_LAYERS), "layer_weights": [15, 60, 250, 1000]}
_PRETRAINED: Overrides = {"model": "resnet50", "weights": "resnet50-0676ba61.pth"}
_OURS: Overrides = {**_PRETRAINED, "settings": {}}
PAPERS_ANNOTATOR: Overrides = {
    "annotator": "pix2pix",  # whose rate, batch and betas are the paper's
    "annotator_width": 64,
    "annotator_updates": 30_000,
}


def _papers(**settings: Any) -> Grid:
    return [{**_PRETRAINED, "settings": {"ramp": 0.0, **settings}}]


PAPERS_GRIDS: Mapping[str, Grid] = {
    "baseline": [_OURS],
    "ReFF": _papers(weight=1.0, **_LAYERS),
    "ReFF (single layer)": _papers(weight=1000.0, layers=["layer4"], layer_weights=[1.0]),
    "ReFF (L1)": _papers(weight=1e-6, **_LAYERS),
    "ReFF (L2)": _papers(weight=1e-6, **_LAYERS),
    "ABN": [
        {
            "model": "attention_branch",
            "model_settings": {"backbone": "resnet50"},
            "settings": {"weight": 10.0, "reduction": "sum"},
            "metric_settings": {"cam_mass": {"layer": ["features.layer3"]}},
        }
    ],
    **{name: [_OURS] for name in ("R3", "R3 (margin)", "Adv-R4", "counterexamples", "oracle")},
    "ReFF (L2, n = 10)": [
        {**one, "strategy_settings": PAPERS_ANNOTATOR} for one in _papers(weight=1e-6, **_LAYERS)
    ],
}
"""The paper's settings; ReFF (L1) and (L2) have 1e-6 on the sum with its weights of layers."""


def give_paper(
    budgets: Mapping[str, Budget], variants: Mapping[str, int], methods: Collection[str]
) -> dict[str, Budget]:
    """Give the paper's budget its grids, and each variant the size of its digits."""
    paper = replace(
        budgets["paper"],
        variants={
            name: {"data_settings": {**PAPERS_DATA, "digit_size": side}}
            for name, side in variants.items()
        },
        grids={name: {one: PAPERS_GRIDS[one] for one in methods} for name in variants},
    )
    return {**budgets, "paper": paper}
