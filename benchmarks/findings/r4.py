"""Numbers and tables of docs/results/r4.md and benchmarks/results/r4/tables.md."""

from functools import cache

from findings.kept import (
    NOT_RUN,
    cell,
    deviation,
    ends,
    figures,
    markdown,
    measured,
    ours,
    paper,
    percent,
)

GUIDED = ("R3", "Smooth-R3", "IBP-Ex", "IBP-Ex + R3", "Rand-R4", "Adv-R4", "Cert-R4")
ON_GRADIENTS = ("R3", "Smooth-R3", "Rand-R4", "Adv-R4")
WORST = "worst group"
RATIO = "masked / core"


def worst(variant: str, method: str, suite: str = "r4-table1") -> float:
    return ours(suite, variant, method, WORST)


def fragility(variant: str, method: str) -> str:
    return f"{ours('r4-table2', variant, method, 'masked fragility, mean'):.2g}"


def ratio(method: str) -> float:
    return ours("r4-table2", "derm", method, RATIO)


@cache
def values() -> dict[str, str]:
    """Return every number of the pages by its name."""
    theirs = [paper("r4-table1", "mnist-faint", method, WORST) for method in GUIDED]
    proved = figures("certificates")["faint"]
    return {
        **ends(("paper-low", "paper-high"), theirs),
        **ends(("mnist-low", "mnist-high"), [worst("mnist-faint", name) for name in GUIDED]),
        **ends(("derm-low", "derm-high"), [worst("derm", name) for name in ON_GRADIENTS]),
        **{
            f"derm-{method.lower()}": percent(worst("derm", method))
            for method in ("ERM", "R3", "IBP-Ex", "Cert-R4", "counterexamples", "oracle")
        },
        **{
            f"average-{method.lower()}": percent(ours("r4-table1", "derm", method, "average group"))
            for method in ("Cert-R4", "oracle")
        },
        **{
            f"ratio-{method.lower()}": f"{ratio(method):.2g}"
            for method in ("IBP-Ex", "Cert-R4", "counterexamples")
        },
        "ratio-both": f"{ratio('IBP-Ex + R3'):.2g}",
        "ratio-mnist-cert": f"{ours('r4-table2', 'mnist-faint', 'Cert-R4', RATIO):.2g}",
        "ratio-mnist-ibp": f"{ours('r4-table2', 'mnist-faint', 'IBP-Ex', RATIO):.2g}",
        "ratio-others": f"{min(map(ratio, ON_GRADIENTS)):.2g}",
        "average-ibp": percent(ours("r4-table1", "derm", "IBP-Ex", "average group")),
        "average-r3": percent(ours("r4-table1", "derm", "R3", "average group")),
        "mnist-erm": percent(worst("mnist-faint", "ERM")),
        "mnist-oracle": percent(worst("mnist-faint", "oracle")),
        "derm-cert-deviation": percent(deviation("r4-table1", "derm", "Cert-R4", WORST)),
        "derm-cert-paper": percent(paper("r4-table1", "derm", "Cert-R4", WORST)),
        "derm-cert-few": percent(worst("derm data 20 %", "Cert-R4", "r4-mask-fraction")),
        "derm-r3-few": percent(worst("derm data 20 %", "R3", "r4-mask-fraction")),
        **{
            f"depth-{name}": percent(worst("mnist 3 layers", method, "r4-model-size"))
            for name, method in (("r3", "R3"), ("cert", "Cert-R4"))
        },
        **{
            f"depth-{name}-paper": percent(
                paper("r4-model-size", "mnist 3 layers", method, WORST), 0
            )
            for name, method in (("r3", "R3"), ("cert", "Cert-R4"))
        },
        **{
            f"text-{name}": percent(ours("r4-text", "imdb", method, WORST))
            for name, method in (
                ("erm", "ERM"),
                ("adv", "Adv-R4"),
                ("copies", "counterexamples"),
                ("oracle", "oracle"),
            )
        },
        "text-adv-paper": percent(paper("r4-text", "imdb", "Adv-R4", WORST)),
        "few-r3": percent(worst("mnist masks 20 %", "R3", "r4-mask-fraction")),
        "few-cert": percent(worst("mnist masks 20 %", "Cert-R4", "r4-mask-fraction")),
        "all-r3": percent(worst("mnist 100 %", "R3", "r4-mask-fraction")),
        "all-cert": percent(worst("mnist 100 %", "Cert-R4", "r4-mask-fraction")),
        "decay-erm": percent(worst("100 %, decay 0.01", "ERM", "r4-weight-decay")),
        "no-decay-erm": percent(worst("100 %, no decay", "ERM", "r4-weight-decay")),
        "no-decay-r3": percent(worst("100 %, no decay", "R3", "r4-weight-decay")),
        "bound-r3": fragility("mnist-faint", "R3"),
        "bound-cert": fragility("mnist-faint", "Cert-R4"),
        "bound-ibp": fragility("mnist-faint", "IBP-Ex"),
        "derm-bound-r3": f"{ours('r4-table2', 'derm', 'R3', 'masked fragility, mean'):.0f}",
        "derm-bound-ibp": fragility("derm", "IBP-Ex"),
        **{f"proved-{name}": percent(proved[name]["verified"]) for name in proved},
    }


def key() -> str:
    """Compare the worst groups with the paper's."""
    suite = measured("r4-table1")
    rows = []
    for method in ("ERM", *GUIDED, "counterexamples", "oracle"):
        row = [method]
        for variant in ("mnist-faint", "derm"):
            found = suite[variant, method][WORST]
            row += [cell(found["ours"], absent=NOT_RUN), cell(found["paper"])]
        rows.append(row)
    return markdown(("method", "Decoy MNIST", "paper", "Decoy DERM", "paper"), rows)


def corruption() -> str:
    """Show the worst groups where all masks are wrong, beside those of the paper's code."""
    rows = []
    for kind in KINDS:
        found = [measured("r4-corruption")[kind, method][WORST] for method in CURVES]
        shown = [cell(one["ours"], absent=NOT_RUN) for one in found]
        rows.append((kind, *shown, cell(found[1]["paper"])))
    return markdown(("masks", *CURVES, "Cert-R4, public code"), rows)


def curves() -> str:
    """Show the worst groups at every share of right masks, beside those of the paper's code."""
    rows = []
    for kind in KINDS[1:]:
        for share in ("80 %", "60 %", "40 %", "20 %", ""):
            variant = f"{kind} {share}".strip()
            found = [measured("r4-corruption")[variant, method][WORST] for method in CURVES]
            ours = [cell(one["ours"], absent=NOT_RUN) for one in found]
            rows.append((kind, share or "0 %", *ours, *(cell(one["paper"]) for one in found)))
    header = ("masks", "right", *CURVES, *(f"{method}, public code" for method in CURVES))
    return markdown(header, rows)


KINDS = ("right", "misposition", "shift", "shrink", "dilation")
CURVES = ("R3", "Cert-R4")


def certificates() -> str:
    """Show the worst group and the verdicts of the certificates."""
    shares = (WORST, "verified", "refuted", "unknown", "verified_and_right")
    rows = [
        (greys, f"`{recipe}`", *(percent(found[share], 2) for share in shares))
        for greys, recipes in figures("certificates").items()
        for recipe, found in recipes.items()
    ]
    header = ("greys", "recipe", WORST, "proved", "refuted", "unknown", "proved and right")
    return markdown(header, rows)


def step_time() -> str:
    """Show the time of steps beside a cross-entropy step."""
    rows = [
        (net, step, f"{ratio:.2f}")
        for net, steps in figures("step_time").items()
        if net != "machine"
        for step, ratio in steps.items()
        if step != "cross_entropy by hand"
    ]
    return markdown(("net", "step", "ratio"), rows)


TABLES = {
    "key": key,
    "corruption": corruption,
    "curves": curves,
    "certificates": certificates,
    "cost": step_time,
}
