"""What ReFF's tables have in common: data, net, methods, candidates, measures, budgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rightreasons.benchmark.measure import Measure
from rightreasons.benchmark.suite import Budget, Grid, Method, Overrides

__all__ = ["BASE", "BUDGETS", "GRIDS", "MEASURES", "METHODS", "PROTOCOL", "methods"]

SIZE = 32
LAST = "layer4"

BASE: Overrides = {
    "data": "textured_mnist",
    "data_settings": {"size": SIZE, "textures_per_class": 12},
    "model": "resnet18",
    "model_settings": {"width": 0.125},
    "optimizer": "adam",
    "scheduler": "cosine",
    "lr": 3e-3,
    "metrics": ["accuracy", "group_accuracy", "swap_accuracy", "cam_mass"],
    "metric_settings": {"swap_accuracy": {"num_draws": 2}},
}

METHODS: Mapping[str, Overrides] = {
    "baseline": {"recipe": "erm"},
    "ReFF": {"recipe": "reff"},
    "ReFF (single layer)": {"recipe": "reff", "settings": {"layers": LAST}},
    "ReFF (L1)": {"recipe": "reff_l1"},
    "ReFF (L2)": {"recipe": "reff_l2"},
    "ABN": {"recipe": "abn", "model": "attention_branch"},
    "R3": {"recipe": "r3"},
    "Adv-R4": {"recipe": "adv_r4", "settings": {"num_steps": 1}},
    "oracle": {"recipe": "erm", "data_settings": {"oracle": True}},
}


def _weights(*weights: float) -> Grid:
    return [{"settings": {"weight": weight}} for weight in weights]


_RATES: Grid = [{"lr": rate} for rate in (3e-3, 1e-3)]

GRIDS: Mapping[str, Grid] = {
    "baseline": _RATES,
    "ReFF": _weights(1.0, 10.0),
    "ReFF (single layer)": _weights(1.0, 10.0),
    "ReFF (L1)": _weights(0.1, 1.0),
    "ReFF (L2)": _weights(0.1, 1.0),
    "ABN": _weights(1.0, 10.0),
    "R3": _weights(0.1, 1.0),
    "Adv-R4": _weights(0.1, 1.0),
    "oracle": _RATES,
}

MEASURES = (
    Measure(key="accuracy", name="accuracy", percent=True),
    Measure(key="group_accuracy/worst", name="worst digit", percent=True),
    Measure(key="cam_mass", name="heat outside the digit", percent=True),
)

PROTOCOL = (
    "Images of 32 × 32 pixels, 12 textures a class, and as backgrounds the ten classes of DTD in "
    "dtd10_128.npz; the paper has 224 × 224, all of DTD and 37 classes of backgrounds.",
    "A slim ResNet-18 from scratch, Adam with a cosine schedule; the paper has a ResNet-50 with "
    "ImageNet's weights, SGD with momentum 0.8 and a rate of 0.01.",
    "Weights are chosen on validation images whose backgrounds were exchanged (accuracy after the "
    "swap). Values go over in reading order, which shears a texture where digits differ. The "
    "paper does not say on what it chose.",
    "A layer's weight is the number of pixels a cell of its map has, of which the paper's (15, 60, "
    "250, 1000) are rounded values for its size; maps are normalised after resizing.",
    "The oracle is the baseline where backgrounds tell nothing; the paper has none.",
    "Heat outside the digit is the share of the last layer's Grad-CAM map, on test images.",
)


def methods(*names: str) -> tuple[Method, ...]:
    """The methods of these names, all if there are none."""
    return tuple(
        Method(name=name, overrides=METHODS[name], grid=GRIDS[name]) for name in names or METHODS
    )


def _budget(seeds: Sequence[int], protocol: str, counts: Sequence[int], **more: Any) -> Budget:
    data = dict(zip(("num_train", "num_validation", "num_test"), counts, strict=True))
    return Budget(seeds=seeds, overrides={"data_settings": data, **more}, protocol=(protocol,))


BUDGETS: Mapping[str, Budget] = {
    "small": _budget(
        (0, 1, 2),
        "4,000 training images and 8 epochs in batches of 100 (320 updates), for about an hour on "
        "two cores; the paper has 54,000 images and 50 epochs in batches of 32 (84,000 updates).",
        (4000, 500, 2000),
        epochs=8,
        batch_size=100,
    ),
    "paper": _budget(
        (0, 1, 2),
        "All images, 50 epochs in batches of 32, at our size of images.",
        (54000, 6000, 10000),
        epochs=50,
        batch_size=32,
    ),
}
"""Of both suites."""
