"""When does ReFF help? Textured MNIST with one thing changed at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rightreasons.benchmark.suite import Grid, Method, Overrides, Suite, Variant, make_suite
from rightreasons.benchmark.suites import reff

__all__ = ["reff_regimes"]

SEEDS = (0,)
WEIGHTS: Mapping[str, float] = {"ReFF": 100.0, "ReFF (L2)": 10.0}
"""As Table 3 chooses them."""


def _grids(**more: Any) -> Mapping[str, Grid]:
    return {name: [{"settings": {"weight": weight, **more}}] for name, weight in WEIGHTS.items()}


def _without_net(overrides: Overrides) -> Overrides:
    """A method without its net and settings, which the variant gives."""
    return {name: overrides[name] for name in ("recipe", "data_settings") if name in overrides}


_PHOTOGRAPHS: Overrides = {"data_settings": {"textures": "auto"}}

_FORMULA: Overrides = {**reff.NET, **reff.MANY}

VARIANTS = (
    Variant(name="as in Table 3", overrides=_FORMULA, grids=_grids(ramp=reff.RAMP)),
    Variant(name="ten background classes", overrides=reff.NET, grids=_grids(ramp=reff.RAMP)),
    Variant(name="no ramp", overrides=_FORMULA, grids=_grids()),
    Variant(
        name="no padding",
        overrides={**_FORMULA, "model_settings": {"padding": 0}},
        grids=_grids(ramp=reff.RAMP),
    ),
    Variant(
        name="photographs", overrides={**reff.NET, **_PHOTOGRAPHS}, grids=_grids(ramp=reff.RAMP)
    ),
    Variant(name="48 pixels", overrides=_FORMULA, grids=_grids(ramp=reff.RAMP)),
)
LARGER: Mapping[str, Overrides] = {
    "48 pixels": {"data_settings": {"size": 48, "digit_size": 47, "num_train": 6000}},
}

PROTOCOL = (
    "One run each, at seed 0, with the settings that Table 3 chooses there; nothing is chosen.",
    "Photographs are of the same ten classes behind digits and on them.",
    "48 pixels: 6,000 images in place of 4,000.",
)


def reff_regimes() -> Suite:
    """ReFF where it helps and where it does not, one thing changed at a time."""
    methods = [
        Method(name=name, overrides=_without_net(reff.METHODS[name]))
        for name in ("baseline", *WEIGHTS, "oracle")
    ]
    return make_suite(
        reff.PAPER,
        "reff-regimes",
        "Textured MNIST, one thing changed at a time",
        "none; the regimes are ours",
        base=reff.BASE,
        variants=VARIANTS,
        methods=methods,
        measures=reff.MEASURES,
        select_by="swap_accuracy",
        budgets={
            name: replace(budget, seeds=SEEDS, variants=LARGER)
            for name, budget in reff.BUDGETS.items()
        },
        protocol=(*PROTOCOL, reff.PROTOCOL[0], reff.PROTOCOL[-1]),
        layout="columns",
    )
