"""R4's Figure 2: is it the masks that help, or weight decay?"""

from __future__ import annotations

from pathlib import Path

from rightreasons.benchmark.measure import read_figures
from rightreasons.benchmark.suite import Suite, Variant
from rightreasons.benchmark.suites import r4_part as r4

__all__ = ["r4_weight_decay"]

FIGURES = Path(__file__).with_suffix(".yaml")

DECAYS = (0.001, 0.01)
FRACTIONS = (1.0, 0.2)
PENALISED = ("R3", "Cert-R4")
SCALED = ("R3", "Cert-R4")

PROTOCOL = (
    "Decay is the sum of the squared weights times the number a variant is named by, the same for "
    "all methods; the paper scales each method's own.",
    "Weights of gradient penalties are divided by the share of samples with a mask.",
    "Without masks every method is ERM with decay, which stands for all.",
    "One seed, three decays and two shares of masks; the paper has six of each, and IBP-Ex.",
)


def r4_weight_decay() -> Suite:
    """Masks against weight decay on Decoy MNIST (R4's Figure 2)."""
    return Suite(
        name="r4-weight-decay",
        title="Masks against weight decay, Decoy MNIST",
        paper="ghitu2025model",
        table="Figure 2",
        base=r4.BASE,
        variants=[
            Variant(
                name="100 %, no decay", overrides=r4.FAINT, methods=(*PENALISED, "ERM", "oracle")
            ),
            *(_variant(fraction, 0.0) for fraction in FRACTIONS[1:]),
            *(_variant(fraction, decay) for decay in DECAYS for fraction in FRACTIONS),
        ],
        methods=r4.methods("ERM", *PENALISED, "oracle", grids=r4.ABLATION_GRIDS),
        measures=r4.ACCURACY[:2],
        select_by=r4.CHOICE,
        ties_within=r4.TIES_WITHIN,
        budgets=r4.budgets(seeds=(0,)),
        figures=read_figures(FIGURES),
        protocol=(*r4.PROTOCOL, *PROTOCOL),
        layout="columns",
    )


def _variant(fraction: float, decay: float) -> Variant:
    data = r4.FAINT if fraction == 1 else r4.reduced(r4.FAINT, mask_fraction=fraction)
    settings = {"settings": {"weight_decay": decay}} if decay else {}
    methods = ("ERM", *PENALISED) if fraction == 1 else PENALISED
    return Variant(
        name=f"{100 * fraction:.0f} %, {f'decay {decay:g}' if decay else 'no decay'}",
        overrides={**data, **settings},
        grids=r4.scaled(r4.ABLATION_GRIDS, fraction, SCALED) if fraction < 1 else {},
        methods=methods,
        chosen_in="100 %, no decay",
    )
