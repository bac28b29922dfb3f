"""R4's Figure 1, left and centre: how many masks, and how many samples, does it take?"""

from __future__ import annotations

from pathlib import Path

from rightreasons.benchmark.measure import read_figures
from rightreasons.benchmark.suite import Suite, Variant
from rightreasons.benchmark.suites import r4_part as r4

__all__ = ["r4_mask_fraction"]

FIGURES = Path(__file__).with_suffix(".yaml")

FEW = 0.2
MNIST_METHODS = ("R3", "Adv-R4", "Cert-R4")
DERM_METHODS = ("R3", "Cert-R4")

PROTOCOL = (
    "Weights of gradient penalties are divided by the share of samples with a mask, so that each "
    "of these counts as before; the paper keeps the strength of its penalties constant.",
    "No weight decay; the paper's shrinks with the share of masks, and in its public code the "
    "decline of all methods but Cert-R4 is that.",
    "The paper has shares of 80, 60, 40, 20 and 0 %; here it is 20 %. Without masks all are ERM.",
)


def r4_mask_fraction() -> Suite:
    """R4 methods with few masks, and with few data (R4's Figure 1, left and centre)."""
    variants = _variants()
    derm = [variant.name for variant in variants if variant.name.startswith("derm")]
    return Suite(
        name="r4-mask-fraction",
        title="Few masks, and few data",
        paper="ghitu2025model",
        table="Figure 1",
        base=r4.BASE,
        variants=variants,
        methods=r4.methods(*MNIST_METHODS, "oracle", grids=r4.ABLATION_GRIDS),
        measures=(*r4.ACCURACY[:2], r4.MASKED_FRAGILITY),
        select_by=r4.CHOICE,
        ties_within=r4.TIES_WITHIN,
        budgets=r4.budgets(derm=derm),
        figures=read_figures(FIGURES),
        protocol=(*r4.PROTOCOL, *PROTOCOL),
        layout="columns",
    )


def _variants() -> list[Variant]:
    mnist = Variant(name="mnist 100 %", overrides=r4.FAINT, methods=(*MNIST_METHODS, "oracle"))
    derm = Variant(
        name="derm 100 %",
        overrides=r4.DERM,
        grids={name: r4.DERM_GRIDS[name] for name in (*DERM_METHODS, "oracle")},
        methods=(*DERM_METHODS, "oracle"),
    )
    return [
        mnist,
        _fewer_masks(mnist, FEW, MNIST_METHODS),
        _fewer_data(mnist, FEW, MNIST_METHODS),
        Variant(
            name=f"ross masks {_percent(FEW)}",
            overrides=r4.reduced(r4.ROSS, mask_fraction=FEW),
            grids=r4.scaled(r4.ABLATION_GRIDS, FEW, ("Adv-R4", "Cert-R4")),
            methods=("Adv-R4", "Cert-R4"),
            chosen_in=mnist.name,
        ),
        derm,
        _fewer_data(derm, FEW, DERM_METHODS),
    ]


def _fewer_masks(whole: Variant, fraction: float, methods: tuple[str, ...]) -> Variant:
    return Variant(
        name=f"{whole.name.split()[0]} masks {_percent(fraction)}",
        overrides=r4.reduced(whole.overrides, mask_fraction=fraction),
        grids=r4.scaled(r4.ABLATION_GRIDS, fraction, methods),
        methods=methods,
        chosen_in=whole.name,
    )


def _fewer_data(whole: Variant, fraction: float, methods: tuple[str, ...]) -> Variant:
    return Variant(
        name=f"{whole.name.split()[0]} data {_percent(fraction)}",
        overrides=r4.reduced(whole.overrides, mask_fraction=fraction, mask_fraction_keep="data"),
        methods=methods,
        chosen_in=whole.name,
    )


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.0f} %"
