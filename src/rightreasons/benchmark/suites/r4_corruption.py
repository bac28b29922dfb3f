"""R4's Figures 1 (right) and 4: what do wrong masks do?"""

from __future__ import annotations

from pathlib import Path

from rightreasons.benchmark.measure import read_figures
from rightreasons.benchmark.suite import Suite, Variant
from rightreasons.benchmark.suites import r4_part as r4

__all__ = ["r4_corruption"]

FIGURES = Path(__file__).with_suffix(".yaml")

KINDS = ("misposition", "shift", "shrink", "dilation")
METHODS = ("R3", "Cert-R4")

PROTOCOL = (
    "All training masks are corrupted, in the way a variant is named by.",
    "Settings are those of right masks. No weight decay: in the paper it shrinks with the share of "
    "right masks, and in its public code the decline of R3 is that.",
    "One seed, and Decoy MNIST alone; the paper has five shares of right masks, IBP-Ex and Decoy "
    "DERM too.",
)


def r4_corruption() -> Suite:
    """R3 and Cert-R4 with wrong masks (R4's Figures 1, right, and 4)."""
    right = Variant(name="right", overrides=r4.FAINT, methods=(*METHODS, "oracle"))
    return Suite(
        name="r4-corruption",
        title="Wrong masks, Decoy MNIST",
        paper="ghitu2025model",
        table="Figures 1 and 4",
        base=r4.BASE,
        variants=(right, *_corrupted(right)),
        methods=r4.methods(*METHODS, "oracle", grids=r4.ABLATION_GRIDS),
        measures=(*r4.ACCURACY[:2], r4.MASKED_FRAGILITY),
        select_by=r4.CHOICE,
        ties_within=r4.TIES_WITHIN,
        budgets=r4.budgets(seeds=(0,)),
        figures=read_figures(FIGURES),
        protocol=(*r4.PROTOCOL, *PROTOCOL),
        layout="columns",
    )


def _corrupted(right: Variant) -> list[Variant]:
    return [
        Variant(
            name=kind,
            overrides=r4.reduced(right.overrides, mask_corruption=kind),
            methods=METHODS,
            chosen_in=right.name,
        )
        for kind in KINDS
    ]
