"""Numbers and tables of docs/results/alignment.md and benchmarks/results/alignment/tables.md."""

from functools import cache

from findings.kept import NOT_RUN, cell, figures, markdown, measured, ours, paper, percent

SUITE, NET = "alignment-table1", "lenet"
METHODS = ("CE only", "ATEX", "Hessian", "l2", "l2 + cosine")
BEST, PLAIN = "l2 + cosine", "CE only"
STRONG = "l2 + cosine, four times as strong"
PAPER_COST = "2.75"  # times a cross-entropy step, l2 + cosine, Table 2 of the paper
TOP = "share of the top tenth on the frame"


def mean(method: str, measure: str) -> float:
    return ours(SUITE, NET, method, measure)


@cache
def values() -> dict[str, str]:
    """Return every number of the pages by its name."""
    inserted = figures("adv_insertion_of_runs")["adv_insertion"]
    attacked = figures("manipulation")
    near, far = attacked["epsilon 2/255"], attacked["epsilon 4/255"]
    cost = {
        net: steps["alignment"]
        for net, steps in figures("alignment_step_time").items()
        if net != "machine"
    }
    faster = figures("explanation_metrics")["times_faster"]
    return {
        **{
            f"{name}-{short}": f"{get(SUITE, NET, method, 'RPS-Grad'):.3f}"
            for name, get in (("rps", ours), ("paper-rps", paper))
            for short, method in (
                ("ce", PLAIN),
                ("hessian", "Hessian"),
                ("l2", "l2"),
                ("best", BEST),
            )
        },
        "rps-atex": f"{mean('ATEX', 'RPS-Grad'):.3f}",
        **{
            f"{name}-{short}": percent(mean(method, f"{column}-{kind}"))
            for name, column, kind in (
                ("ins-grad", "Ins", "Grad"),
                ("ins-xgrad", "Ins", "xGrad"),
                ("ains-grad", "A-Ins", "Grad"),
            )
            for short, method in (
                ("ce", PLAIN),
                ("hessian", "Hessian"),
                ("l2", "l2"),
                ("best", BEST),
            )
            if column == "A-Ins" or short == "ce"
        },
        "paper-ins-grad": percent(paper(SUITE, NET, PLAIN, "Ins-Grad")),
        "paper-ins-xgrad": percent(paper(SUITE, NET, PLAIN, "Ins-xGrad")),
        "rps-gain": f"{mean(BEST, 'RPS-Grad') - mean(PLAIN, 'RPS-Grad'):.3f}",
        "accuracy-ce": percent(mean(PLAIN, "accuracy")),
        "accuracy-best": percent(mean(BEST, "accuracy")),
        "paper-accuracy-ce": percent(paper(SUITE, NET, PLAIN, "accuracy")),
        "paper-accuracy-best": percent(paper(SUITE, NET, BEST, "accuracy")),
        **{
            f"ains-{kind.lower()}-{short}": percent(mean(method, f"A-Ins-{kind}"))
            for kind in ("xGrad", "GBP")
            for short, method in (("ce", PLAIN), ("best", BEST))
        },
        **{
            f"ains-{name}-{short}": percent(inserted[method][key])
            for name, key in (("mean", "mean"), ("deviation", "deviation"))
            for short, method in (("ce", PLAIN), ("best", BEST))
        },
        "ains-samples": str(figures("adv_insertion_of_runs")["samples"]),
        "paper-ains-ce": percent(paper(SUITE, NET, PLAIN, "A-Ins-Grad")),
        "paper-ains-best": percent(paper(SUITE, NET, BEST, "A-Ins-Grad")),
        "attack-samples": str(attacked["samples"]),
        **{
            f"{distance}-{when}-{short}": percent(runs[method][f"{TOP} {when}"], 0)
            for distance, runs in (("near", near), ("far", far))
            for when in ("before", "after")
            for short, method in (("ce", PLAIN), ("best", BEST), ("strong", STRONG))
            if (distance, when) != ("far", "before")
        },
        **{
            f"near-cosine-{short}": f"{near[method]['cosine of the maps']:.2f}"
            for short, method in (("ce", PLAIN), ("best", BEST), ("strong", STRONG))
        },
        **{
            f"cost-{short}": f"{cost[f'{net}, batch 128']['time']:.1f}"
            for short, net in (
                ("lenet", "lenet_softplus"),
                ("lenet-relu", "lenet_relu"),
                ("resnet", "resnet18_softplus"),
                ("resnet-relu", "resnet18_relu"),
            )
        },
        "paper-cost": PAPER_COST,
        "by-hand-low": f"{min(one['time beside by hand'] for one in cost.values()):.2f}",
        "by-hand-high": f"{max(one['time beside by hand'] for one in cost.values()):.2f}",
        "faster-definition": f"{faster['all']['by definition']:.0f}",
        "faster-sharing": f"{faster['all']['sharing']:.1f}",
        **{
            f"faster-{name}": f"{faster[name]['sharing']:.1f}"
            for name in ("rps", "insertion", "adv_insertion")
        },
        "faster-quantus": f"{figures('insertion_beside_quantus')['times_faster']:.1f}",
    }


def key() -> str:
    """Compare similarity under noise and accuracy with the paper's."""
    rows = []
    for method in METHODS:
        found = measured(SUITE)[NET, method]
        rps, accuracy = found["RPS-Grad"], found["accuracy"]
        rows.append(
            (
                method,
                cell(rps["ours"], absent=NOT_RUN, scale=1, digits=3),
                cell(rps["paper"], scale=1, digits=3),
                cell(accuracy["ours"], absent=NOT_RUN),
                cell(accuracy["paper"]),
            )
        )
    return markdown(("method", "RPS-Grad", "paper", "accuracy", "paper"), rows)


def adv_insertion() -> str:
    """Show Adv-Insertion on more images than the suite has."""
    rows = [
        (
            name,
            cell(row, digits=2),
            ", ".join(f"{100 * value:.1f}" for value in row["of each seed"]),
        )
        for name, row in figures("adv_insertion_of_runs")["adv_insertion"].items()
    ]
    return markdown(("method", "Adv-Insertion-Grad", "at each seed"), rows)


def attack() -> str:
    """Show how far an attack moves the maps to the frame."""
    budgets = {name: runs for name, runs in figures("manipulation").items() if name != "samples"}
    shares = [
        f"share of the {what} on the frame {when}"
        for what in ("map", "top tenth")
        for when in ("before", "after")
    ]
    rows = [
        (
            name if name != BEST else f"{BEST}, as in Table 1",
            budget.split()[-1],
            *(f"{percent(found[share])} %" for share in shares),
            f"{found['cosine of the maps']:.2f}",
            f"{percent(found['accuracy'])} %",
        )
        for budget, runs in budgets.items()
        for name, found in runs.items()
    ]
    header = (
        "run",
        "within",
        "map on the frame before",
        "after",
        "top tenth of pixels on it before",
        "after",
        "cosine of the maps",
        "accuracy",
    )
    return markdown(header, rows)


def step_time() -> str:
    """Show time and memory of steps beside cross-entropy and beside the formula by hand."""
    costs = ("time", "memory", "time beside by hand", "memory beside by hand")
    rows = [
        (net, f"`{step}`", *(f"{found[name]:.2f}" for name in costs))
        for net, steps in figures("alignment_step_time").items()
        if net != "machine"
        for step, found in steps.items()
        if costs[-1] in found
    ]
    return markdown(("net", "step", *costs), rows)


TABLES = {"key": key, "adv-insertion": adv_insertion, "attack": attack, "step-time": step_time}
