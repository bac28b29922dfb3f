"""MaskTune's Table 6: random windows of any size beside MaskTune."""

from __future__ import annotations

from pathlib import Path

from rightreasons.benchmark.measure import read_figures
from rightreasons.benchmark.suite import Suite, Variant
from rightreasons.benchmark.suites import masktune_part as part

__all__ = ["masktune_table6"]

FIGURES = Path(__file__).with_suffix(".yaml")


def masktune_table6() -> Suite:
    """Biased MNIST: random windows from 2 to 14 pixels, and MaskTune (MaskTune's Table 6)."""
    return Suite(
        name="masktune-table6",
        title="Biased MNIST, one square: more aggressive random masking",
        paper="asgari2022masktune",
        table="Table 6",
        base=part.BASE,
        variants=(Variant(name="one square", overrides={"data_settings": {"squares": 1}}),),
        methods=part.methods("RandMask, any size", "MaskTune"),
        measures=part.MEASURES,
        select_by="accuracy",
        budgets=part.budgets(epochs=4),
        figures=read_figures(FIGURES),
        protocol=part.PROTOCOL,
    )
