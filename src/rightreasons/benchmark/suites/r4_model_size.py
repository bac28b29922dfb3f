"""R4's Figure 3: do the methods carry over to deeper nets?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rightreasons.benchmark.measure import read_figures
from rightreasons.benchmark.suite import Grid, Overrides, Suite, Variant
from rightreasons.benchmark.suites import r4_part as r4

__all__ = ["r4_model_size"]

FIGURES = Path(__file__).with_suffix(".yaml")

METHODS = ("R3", "Cert-R4", "oracle")
LAYERS = (1, 2, 3)
CONVOLUTIONS = (2, 4)

DEEP_GRIDS: Mapping[str, Grid] = {
    "R3": [{"settings": {"weight": 30.0}}],
    "Cert-R4": [{"settings": {"weight": 1.0, "epsilon": 0.1, "ramp": 0.6}}],
    "oracle": [{"lr": 2e-3}],
}

PROTOCOL = (
    "On deeper nets for Decoy MNIST settings are the recipes' defaults; but Cert-R4's weight is 1, "
    "and its box grows over the first 60 % of training, since the bounds of deep nets are "
    "wide at first. The paper keeps the settings of its own net throughout.",
    "One seed, R3 and Cert-R4 alone, and fewer depths than the paper.",
)


def r4_model_size() -> Suite:
    """R3 and Cert-R4 on nets of several depths (R4's Figure 3)."""
    derm_grids = {name: r4.DERM_GRIDS[name] for name in METHODS}
    mnist = [
        Variant(
            name=f"mnist {layers} layer{'s' if layers > 1 else ''}",
            overrides={**r4.FAINT, "model_settings": {"hidden": [512] * layers}},
            grids=DEEP_GRIDS if layers > 1 else {},
            methods=METHODS,
        )
        for layers in LAYERS
    ]
    derm = [
        Variant(
            name=f"derm {depth} convolutions",
            overrides=_deep(depth),
            grids=derm_grids,
            methods=METHODS,
            chosen_in=None if depth == 4 else "derm 4 convolutions",
        )
        for depth in CONVOLUTIONS
    ]
    return Suite(
        name="r4-model-size",
        title="Deeper nets",
        paper="ghitu2025model",
        table="Figure 3",
        base=r4.BASE,
        variants=(*mnist, *derm),
        methods=r4.methods(*METHODS, grids=r4.ABLATION_GRIDS),
        measures=(*r4.ACCURACY[:2], r4.MASKED_FRAGILITY),
        select_by=r4.CHOICE,
        ties_within=r4.TIES_WITHIN,
        budgets=r4.budgets(derm=[variant.name for variant in derm], seeds=(0,)),
        figures=read_figures(FIGURES),
        protocol=(*r4.PROTOCOL, *PROTOCOL),
        layout="columns",
    )


def _deep(depth: int) -> Overrides:
    if depth == 4:  # the net of Table 1, so that its runs are shared
        return r4.DERM
    return {**r4.DERM, "model_settings": {**r4.DERM["model_settings"], "depth": depth}}
