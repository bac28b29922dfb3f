"""ReFF's Table 3 with all annotations: which guidance keeps a net off the background?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rightreasons.benchmark.measure import read_figures
from rightreasons.benchmark.suite import Grid, Suite, Variant
from rightreasons.benchmark.suites import reff_part as reff

__all__ = ["reff_table3"]

FIGURES = Path(__file__).with_suffix(".yaml")

NO_SHORTCUT = ("baseline", "ReFF", "ReFF (L2)")
LIGHTER: Mapping[str, Grid] = {
    "ReFF": [{"settings": {"weight": weight}} for weight in (10.0, 1.0)],
    "ReFF (L2)": [{"settings": {"weight": weight}} for weight in (3.0, 0.3)],
}
"""Smaller than what is chosen at p = 0, or equal: there is no shortcut to work against."""

PHOTOGRAPHS = ("baseline", "ReFF (L2)", "oracle")

PROTOCOL = (
    "All training images are annotated: the lines n = 0 and n = All of the table, with the "
    "supplement's ReFF (L1) and ReFF (L2). R3 and Adv-R4, with the same masks, are not in the "
    "paper; they differentiate the loss, (margin) the label's logit less the largest other one. In "
    "n = 10 the masks of ten images a class are given, and a pseudo-annotator that "
    "learned from them predicts all others.",
    "ABN is the same net with an attention branch after its last convolution.",
    "Where backgrounds tell nothing (p = 1), settings are first those chosen where they do, then "
    "chosen anew by the same rule: ReFF's among 10 and 1, ReFF (L2)'s among 3 and 0.3.",
)


def reff_table3() -> Suite:
    """ReFF, its variants and other guidance with all masks (ReFF's Table 3)."""
    return Suite(
        name="reff-table3",
        title="Textured MNIST, all annotations",
        paper="adachi2022learning",
        table="Table 3",
        base=reff.BASE,
        variants=(
            Variant(name="p = 0", title="backgrounds tell the digit in training"),
            Variant(
                name="p = 1",
                title="no shortcut: backgrounds tell nothing",
                overrides={"data_settings": {"background_randomness": 1.0}},
                methods=NO_SHORTCUT,
                chosen_in="p = 0",
            ),
            Variant(
                name="p = 1, chosen anew",
                title="the same, with settings chosen there",
                overrides={"data_settings": {"background_randomness": 1.0}},
                grids=LIGHTER,
                methods=NO_SHORTCUT,
            ),
            Variant(
                name="photographs",
                title="p = 0 with photographs, of the same classes behind digits and on them",
                overrides={"data_settings": {"textures": "auto"}},
                methods=PHOTOGRAPHS,
                chosen_in="p = 0",
            ),
        ),
        methods=reff.methods(),
        measures=reff.MEASURES,
        select_by="swap_accuracy",
        budgets=reff.BUDGETS,
        figures=read_figures(FIGURES),
        protocol=(*reff.PROTOCOL, *PROTOCOL),
    )
