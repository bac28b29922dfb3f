"""MaskTune's Figure 2: one square, does covering what was looked at help?"""

from __future__ import annotations

from pathlib import Path

from rightreasons.benchmark.measure import read_figures
from rightreasons.benchmark.suite import Suite, Variant
from rightreasons.benchmark.suites import masktune_part as part

__all__ = ["masktune_figure2"]

FIGURES = Path(__file__).with_suffix(".yaml")
PROTOCOL = (
    "The paper does not say how large the windows of its RandMask are; here 6 x 6 pixels, about "
    "as many as MaskTune covers, and any size as in its Table 6.",
)


def masktune_figure2() -> Suite:
    """Biased MNIST: ERM, RandMask and MaskTune on both test sets (MaskTune's Figure 2)."""
    return Suite(
        name="masktune-figure2",
        title="Biased MNIST, one square, a small convolutional net",
        paper="asgari2022masktune",
        table="Figure 2",
        base=part.BASE,
        variants=(Variant(name="one square", overrides={"data_settings": {"squares": 1}}),),
        methods=part.methods(),
        measures=part.MEASURES,
        select_by="accuracy",
        budgets=part.budgets(epochs=4),
        figures=read_figures(FIGURES),
        protocol=(*part.PROTOCOL, *PROTOCOL),
    )
