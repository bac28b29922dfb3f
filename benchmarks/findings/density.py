"""Numbers and tables of docs/results/density.md and benchmarks/results/density/tables.md."""

from functools import cache

from findings.kept import (
    NOT_RUN,
    cell,
    comparison,
    ends,
    figures,
    kept_rows,
    markdown,
    measured,
    ours,
    paper,
    percent,
)
from rightreasons.benchmark.suites.density_tables import SHOWN

TABLE, NET = "density-table1", "block-mnist"
SUM, P1 = "Density (log-sum-exp)", "Density (p = 1)"
SMALL_ATTACK = "PGD-20 l2 0.1"
UPPER = 0.93  # accuracies from here on are compared apart


def mean(method: str, measure: str) -> float:
    return ours(TABLE, NET, method, measure)


def densities() -> list[str]:
    return [name for _, name in measured(TABLE) if name.startswith("Density")]


def falls(leakage: list[float], standard: float) -> list[float]:
    return [1 - value / standard for value in leakage]


def less(density: str, other: str, *, upper: bool = False) -> list[float]:
    """List how much less Density leaks than another penalty at the same accuracy."""
    return [
        row["less"]
        for row in figures("density_figure4")["at_equal_accuracy"][density][other]
        if row["less"] is not None and (not upper or row["accuracy"] >= UPPER)
    ]


def worst_of_erm(seed: int, lr: float) -> float:
    """Return the worst group of an ERM run of density-groups, chosen or not."""
    (found,) = (
        row["results"]["metrics"]["test"]["group_accuracy/worst"]
        for row in kept_rows("density")
        if row["config"]["data"] == "biased_mnist"
        and (row["config"]["recipe"], row["config"]["lr"], row["config"]["seed"])
        == ("erm", lr, seed)
    )
    return found


def worst_of_density(seed: int) -> float:
    """Return the worst group of the chosen Density run of density-groups."""
    (line,) = (
        line for line in comparison("density-groups").lines if line.line.method.name == "Density"
    )
    return line.results[seed]["metrics"]["test"]["group_accuracy/worst"]


def at_other_seeds() -> dict[str, str]:
    """Return the numbers of the suite with unseen seeds."""

    def means(floor: int, measure: str) -> list[float]:
        suite, variant = "density-unseen", f"floor of {floor} %"
        return [ours(suite, variant, name, measure) for name in (SUM, P1)]

    def standard(measure: str) -> float:
        return ours("density-unseen", "floor of 94 %", "ST", measure)

    leads = {
        floor: [value - standard(SMALL_ATTACK) for value in means(floor, SMALL_ATTACK)]
        for floor in (93, 94)
    }
    attacks = [name for name in SHOWN if name.startswith("PGD")]
    ahead = [
        ours("density-unseen", "floor of 94 %", "InputGrad", name)
        > ours("density-unseen", "floor of 94 %", SUM, name)
        for name in attacks
    ]
    return {
        "unseen-attacks": str(len(attacks)),
        "unseen-ahead": str(sum(ahead)),
        **ends(
            ("unseen-fall-low", "unseen-fall-high"),
            falls(means(94, "leakage"), standard("leakage")),
            0,
        ),
        **ends(("lead-low", "lead-high"), leads[94]),
        **ends(("behind-low", "behind-high"), [-lead for lead in leads[93]]),
    }


def stability() -> dict[str, str]:
    """Return the numbers of the two figures on numerical stability."""
    found = figures("density_stability")
    largest = found["largest logit"]
    return {
        "last-rate": str(found["settings"]["last_rate"]),
        "steps": str(found["settings"]["steps"]),
        "plain-end": str(found["training"]["plain"][-1][0]),
        "plain-logit": f"{largest['plain'][-1][1]:.1f}",
        "sum-logit": f"{max(logit for _, logit in largest['logsumexp']):.0f}",
    }


def costs() -> dict[str, str]:
    """Return the costs of a step."""
    found = figures("density_step_time")
    mlp, resnet = found["mlp2, batch 128"], found["resnet18, batch 128"]
    step = "density logsumexp"
    return {
        "cost-mlp": f"{mlp['10 classes'][step]:.2f}",
        "cost-resnet": f"{resnet['10 classes'][step]:.2f}",
        "beside-mlp": f"{mlp['10 classes, beside input_gradient'][step]:.2f}",
        "beside-resnet": f"{resnet['10 classes, beside input_gradient'][step]:.2f}",
        "many-mlp": f"{mlp['many classes beside few'][step]:.2f}",
        "many-resnet": f"{resnet['many classes beside few'][step]:.2f}",
    }


@cache
def values() -> dict[str, str]:
    """Return every number of the pages by its name."""
    names = densities()
    near = figures("density_beside_logit")["means over seeds"][SUM]
    loss = [*less(SUM, "InputGrad (loss)"), *less(P1, "InputGrad (loss)")]
    squared = [name for name in names if name != P1]
    theirs = paper(TABLE, NET, "Density (plain)", "leakage")
    return {
        **ends(("fall-low", "fall-high"), falls_of(names), 0),
        **ends(("accuracy-low", "accuracy-high"), [mean(name, "accuracy") for name in names]),
        "accuracy-st": percent(mean("ST", "accuracy")),
        "paper-fall": percent(1 - theirs / paper(TABLE, NET, "ST", "leakage"), 0),
        "paper-less": percent(1 - theirs / paper(TABLE, NET, "InputGrad", "leakage"), 0),
        **ends(("share-low", "share-high"), [mean(name, "leaked share") for name in squared], 0),
        "share-st": percent(mean("ST", "leaked share"), 0),
        "share-p1": percent(mean(P1, "leaked share"), 0),
        "share-at": percent(mean("AT (PGD)", "leaked share"), 0),
        "share-ig": percent(mean("IG-SUM", "leaked share"), 0),
        "level-more": percent(-min(less(SUM, "InputGrad")), 0),
        "level-less": percent(max(less(SUM, "InputGrad")), 0),
        **ends(("p1-low", "p1-high"), less(P1, "InputGrad", upper=True), 0),
        **ends(("more-low", "more-high"), [-v for v in less(P1, "InputGrad (p = 1)")], 0),
        "loss-low": f"{1 / (1 - min(loss)):.1f}",
        "loss-high": f"{1 / (1 - max(loss)):.1f}",
        "cosine": f"{near['cosine of the gradients']:.2f}",
        "length": "{:.2f}".format(near["length beside InputGrad's"]),
        "probability": f"{near['probability of the label']:.2f}",
        **{
            f"linf-{short}": percent(mean(method, "PGD-20 linf 0.1"))
            for short, method in (
                ("sum", SUM),
                ("p1", P1),
                ("at", "AT (PGD)"),
                ("ig", "IG-SUM"),
                ("input", "InputGrad"),
                ("input-p1", "InputGrad (p = 1)"),
            )
        },
        **at_other_seeds(),
        **{
            f"{where}-{short}": percent(ours("density-table2", variant, method, "worst group"))
            for where, variant in (("faces", "celeba"), ("birds", "waterbirds"))
            for short, method in (
                ("vanilla", "Vanilla"),
                ("dro", "Group DRO"),
                ("input", "InputGrad"),
                ("density", "Density"),
                ("sum", "Group DRO + Density"),
            )
        },
        **{
            f"dro-{short}": percent(
                ours("density-groups", "biased-mnist", method, "biased, worst group")
            )
            for short, method in (
                ("both", "group DRO + Density"),
                ("alone", "group DRO"),
            )
        },
        "groups-erm": percent(worst_of_erm(0, 2e-3)),
        "groups-density": percent(worst_of_density(0)),
        **stability(),
        **costs(),
    }


def falls_of(names: list[str]) -> list[float]:
    return falls([mean(name, "leakage") for name in names], mean("ST", "leakage"))


def key() -> str:
    """Show leakage, accuracy and one attack of the main methods."""
    names = {
        "ST": "ST",
        "AT (PGD)": "AT (PGD)",
        "IG-SUM": "IG-SUM",
        "InputGrad": "InputGrad, p = 2",
        SUM: "Density, p = 2",
        "InputGrad (p = 1)": "InputGrad, p = 1",
        P1: "Density, p = 1",
    }
    rows = []
    for name, label in names.items():
        found = {measure: one["ours"] for measure, one in measured(TABLE)[NET, name].items()}
        rows.append(
            (
                label,
                cell(found["leakage"], scale=1, digits=2),
                cell(found["leaked share"], digits=0),
                cell(found["accuracy"]),
                cell(found["PGD-20 linf 0.1"], digits=0),
            )
        )
    return markdown(("method", "leakage", "share", "accuracy", "after PGD"), rows)


def equal_accuracy() -> str:
    """Compare leakage at equal accuracy along the sweep."""

    def span(shares: list[float]) -> str:
        low, high = ends(("low", "high"), shares, 0).values()
        return f"{low} to {high} %"

    rows = [
        (
            density,
            other,
            f"{len(less(density, other))} of {len(points)}",
            span(less(density, other)),
            span(less(density, other, upper=True)),
        )
        for density, others in figures("density_figure4")["at_equal_accuracy"].items()
        for other, points in others.items()
    ]
    header = ("penalty", "beside", "points compared", "leaks less by", "from 93 % accuracy on")
    return markdown(header, rows)


def foolbox() -> str:
    """Show the accuracy that each attack leaves."""
    found = figures("attacks_beside_foolbox")["accuracy"]
    names = [name for name in next(iter(found.values())) if not name.startswith("images on")]
    rows = [(attack, *(percent(left[name], 2) for name in names)) for attack, left in found.items()]
    return markdown(("attack", *names), rows)


def step_time() -> str:
    """Show the time of steps beside cross-entropy and beside InputGrad."""
    rows = []
    for net, found in figures("density_step_time").items():
        if net == "machine":
            continue
        for classes in (10, 1000):
            beside = found[f"{classes} classes, beside input_gradient"]
            for step, ratio in found[f"{classes} classes"].items():
                if step == "cross_entropy by hand":
                    continue
                other = f"{beside[step]:.2f}" if step in beside else "–"
                many = found["many classes beside few"][step]
                extra = f"{many:.2f}" if classes == 1000 else "–"
                rows.append((net, str(classes), step, f"{ratio:.2f}", other, extra))
    header = (
        "net",
        "classes",
        "step",
        "beside cross-entropy",
        "beside `input_gradient`",
        "beside 10 classes",
    )
    return markdown(header, rows)


def photographs() -> str:
    """Show the worst groups on CelebA and Waterbirds, beside the paper's."""
    suite = measured("density-table2")
    rows = []
    for method in dict.fromkeys(method for _, method in suite):
        row = [method]
        for variant in ("celeba", "waterbirds"):
            found = suite[variant, method]["worst group"]
            row += [cell(found["ours"], absent=NOT_RUN), cell(found["paper"])]
        rows.append(row)
    return markdown(("method", "CelebA", "paper", "Waterbirds", "paper"), rows)


TABLES = {
    "key": key,
    "photographs": photographs,
    "equal-accuracy": equal_accuracy,
    "foolbox": foolbox,
    "step-time": step_time,
}
