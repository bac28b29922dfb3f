"""The table of docs/results/index.md: the main tables and figures of the papers, from rows."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from findings.kept import NOT_RUN, comparison, figures, markdown, ours, paper, percent

WORST, GUIDED = "worst group", ("R3", "Smooth-R3", "IBP-Ex", "IBP-Ex + R3", "Rand-R4", "Adv-R4")
ALL_GUIDED = (*GUIDED, "counterexamples")
ELSEWHERE = "loader ready, data not here"
OPEN, PICTURE = "not run yet", "does not apply"
Numbers = tuple[float, float]
"""Two numbers that a claim compares: what should be larger, and what should be smaller."""


@dataclass(frozen=True)
class Entry:
    """A table or figure of a paper.

    Args:
        where: The paper and the table or figure.
        claim: What it claims, that the first number is larger than the second.
        suite: Name of the suite, or of the script; empty if there is none.
        status: Status where there is no suite.
        ours: Our two numbers.
        theirs: The paper's two numbers.
        show: How a number is written.
    """

    where: str
    claim: str
    suite: str = ""
    status: str = ""
    ours: Callable[[], Numbers] | None = None
    theirs: Callable[[], Numbers] | None = None
    show: Callable[[float], str] = percent

    @property
    def state(self) -> str:
        """Whether the suite has rows."""
        if self.status:
            return self.status
        lines = comparison(self.suite).lines
        done = [bool(line.results) for line in lines]
        return "run in small" if all(done) else "run in part" if any(done) else OPEN

    @property
    def held(self) -> bool | None:
        """Whether the claim held, by numbers as shown; None if there are no rows to tell."""
        if self.ours is None or any(map(math.isnan, self.ours())):
            return None
        larger, smaller = self.ours()
        return larger > smaller and self.show(larger) != self.show(smaller)

    def row(self) -> tuple[str, ...]:
        """Return the line of the table."""
        held = {True: "yes", False: "no", None: "–"}[self.held]
        suite = f"`{self.suite}`" if self.suite else "–"
        numbers = [self._write(self.ours), self._write(self.theirs)]
        return (self.where, self.claim, held, *numbers, suite, self.state)

    def _write(self, numbers: Callable[[], Numbers] | None) -> str:
        if numbers is None:
            return "–"
        if any(map(math.isnan, numbers())):
            return NOT_RUN if numbers is self.ours else "–"
        return " / ".join(map(self.show, numbers()))


def compare(
    suite: str, variant: str, measure: str, larger: str, smaller: str | tuple[str, ...]
) -> dict[str, Callable[[], Numbers]]:
    """Give both pairs of numbers: one method, and the best of others."""
    others = (smaller,) if isinstance(smaller, str) else smaller

    def both(get: Callable[[str, str, str, str], float]) -> Numbers:
        found = [get(suite, variant, method, measure) for method in others]
        best = math.nan if any(map(math.isnan, found)) else max(found)
        return get(suite, variant, larger, measure), best

    return {"ours": lambda: both(ours), "theirs": lambda: both(paper)}


def least(
    suite: str, variant: str, measure: str, smallest: str, others: tuple[str, ...]
) -> dict[str, Callable[[], Numbers]]:
    """Give both pairs of numbers where the paper's method should have less than all others."""

    def both(get: Callable[[str, str, str, str], float]) -> Numbers:
        found = [get(suite, variant, method, measure) for method in others]
        known = [one for one in found if not math.isnan(one)]
        return min(known, default=math.nan), get(suite, variant, smallest, measure)

    return {"ours": lambda: both(ours), "theirs": lambda: both(paper)}


def number(value: float) -> str:
    return f"{value:.3g}"


@cache
def entries() -> list[Entry]:
    """List the main tables and figures of the five papers."""
    cert = "Cert-R4 has the best worst group"
    return [
        *(
            Entry(
                f"R4, Table 1, {title}",
                cert,
                "r4-table1",
                **compare("r4-table1", variant, WORST, "Cert-R4", GUIDED),
            )
            for variant, title in (("mnist-faint", "Decoy MNIST"), ("derm", "Decoy DERM"))
        ),
        Entry("R4, Table 1, ISIC", "Rand-R4 has the best worst group", status=ELSEWHERE),
        Entry("R4, Table 1, Plant", cert, status=ELSEWHERE),
        Entry("R4, Table 1, Salient ImageNet", "Adv-R4 has the best RCS", status=ELSEWHERE),
        Entry(
            "R4, Table 1, Decoy IMDB",
            "Adv-R4 has the best worst group",
            "r4-text",
            **compare("r4-text", "imdb", WORST, "Adv-R4", ("R3", "Smooth-R3", "Rand-R4")),
        ),
        *(
            Entry(
                f"R4, {table}, {title}",
                f"Cert-R4 has the smallest {what}",
                "r4-table2",
                **least("r4-table2", variant, measure, "Cert-R4", ALL_GUIDED),
                show=number,
            )
            for table, what, measure in (
                ("Table 2", "masked / core fragility", "masked / core"),
                ("Table 3", "masked fragility", "masked fragility, largest"),
            )
            for variant, title in (("mnist-faint", "Decoy MNIST"), ("derm", "Decoy DERM"))
        ),
        Entry("R4, Tables 2 to 4, ISIC and Plant", "The same", status=ELSEWHERE),
        Entry(
            "R4, Table 4",
            "Core fragility, by which Table 2 divides: no claim of its own",
            "r4-table2",
        ),
        Entry(
            "R4, Figure 1, few masks",
            "With a fifth of the masks Cert-R4 is above R3",
            "r4-mask-fraction",
            **compare("r4-mask-fraction", "mnist masks 20 %", WORST, "Cert-R4", "R3"),
        ),
        *(
            Entry(
                f"R4, Figure 1, few data, {title}",
                "With a fifth of the data Cert-R4 is above R3",
                "r4-mask-fraction",
                **compare("r4-mask-fraction", variant, WORST, "Cert-R4", "R3"),
            )
            for variant, title in (
                ("mnist data 20 %", "Decoy MNIST"),
                ("derm data 20 %", "Decoy DERM"),
            )
        ),
        Entry(
            "R4, Figures 1 and 4, wrong masks",
            "With a fifth of the masks right, others misplaced, Cert-R4 is above R3",
            "r4-corruption",
            **compare("r4-corruption", "misposition 20 %", WORST, "Cert-R4", "R3"),
        ),
        Entry(
            "R4, Figure 2",
            "Weight decay alone does more than the masks of R3",
            "r4-weight-decay",
            ours=lambda: (
                ours("r4-weight-decay", "100 %, decay 0.01", "ERM", WORST),
                ours("r4-weight-decay", "100 %, no decay", "R3", WORST),
            ),
        ),
        Entry(
            "R4, Figure 3",
            "With three hidden layers Cert-R4 is above R3",
            "r4-model-size",
            **compare("r4-model-size", "mnist 3 layers", WORST, "Cert-R4", "R3"),
        ),
        Entry(
            "Density, Table 1, leakage",
            "Density leaks less than two thirds of InputGrad (here at equal accuracy)",
            "density-figure4",
            ours=leakage,
            theirs=lambda: (
                2 / 3 * paper(*BLOCKS, "InputGrad", "leakage"),
                paper(*BLOCKS, PLAIN_DENSITY, "leakage"),
            ),
            show=number,
        ),
        Entry(
            "Density, Table 1, attacks",
            "Density withstands attacks (l-infinity 0.3, short steps) better than InputGrad",
            "density-table1",
            ours=lambda: (ours(*BLOCKS, DENSITY, ATTACK), ours(*BLOCKS, "InputGrad", ATTACK)),
            theirs=lambda: (
                paper(*BLOCKS, PLAIN_DENSITY, ATTACK),
                paper(*BLOCKS, "InputGrad", ATTACK),
            ),
        ),
        *(
            Entry(
                f"Density, Table 2, {title}",
                "Density has a better worst group than InputGrad",
                "density-table2",
                **compare("density-table2", variant, WORST, "Density", "InputGrad"),
            )
            for variant, title in (("celeba", "CelebA-Hair"), ("waterbirds", "Waterbirds"))
        ),
        Entry(
            "Density, Figure 4",
            "Density leaks less as its weight grows",
            "density-figure4",
            ours=lambda: (
                ours("density-figure4", "step 1", DENSITY, "leakage"),
                ours("density-figure4", "step 5", DENSITY, "leakage"),
            ),
            show=number,
        ),
        Entry(
            "Density, Figures 2 and 10, stability",
            "The stable form trains longer than the plain one",
            status="run in small, `benchmarks/density_stability.py`",
            ours=stable_steps,
            show=number,
        ),
        Entry(
            "Density, Figures 2 and 8, time",
            "A step on ResNet-18 takes at most 1.05 times one of InputGrad",
            status="run on a processor, `benchmarks/density_step_time.py`",
            ours=lambda: (1.05, figures("density_step_time")[DENSITY_STEP][BESIDE][LOGSUMEXP]),
            show=number,
        ),
        Entry(
            "Density, Table 3, MLP",
            "The stable form leaks less than two thirds of ST",
            "density-table1",
            ours=lambda: (2 / 3 * ours(*BLOCKS, "ST", LEAK), ours(*BLOCKS, DENSITY, LEAK)),
            theirs=lambda: (2 / 3 * paper(*BLOCKS, "ST", LEAK), paper(*BLOCKS, STABLE, LEAK)),
            show=number,
        ),
        Entry("Density, Table 3, VGG11 and ResNet-18", "The same", status=OPEN),
        Entry(
            "Density, Figure 7",
            "A smaller norm leaks less",
            "density-table1",
            ours=lambda: (ours(*BLOCKS, DENSITY, LEAK), ours(*BLOCKS, "Density (p = 1)", LEAK)),
            show=number,
        ),
        Entry(
            "Density, Tables 4 to 6, CIFAR, SVHN, Tiny ImageNet",
            "Density withstands attacks better than InputGrad",
            status=OPEN,
        ),
        Entry("Density, Table 7", "Density detects other data better", status=OPEN),
        Entry("Density, Figures 6 and 9, CIFAR", "Density is robust to noise", status=OPEN),
        Entry("Density, Figures 1, 3, 5, 11 to 15", "Pictures of attributions", status=PICTURE),
        Entry(
            "MaskTune, Figure 2",
            "MaskTune is above RandMask (biased test set)",
            "masktune-figure2",
            **compare("masktune-figure2", "one square", "biased", "MaskTune", "RandMask"),
        ),
        *(
            Entry(
                f"MaskTune, {table}",
                f"MaskTune has a better worst group than {other}",
                suite,
                **compare(suite, "resnet", WORST, "MaskTune", other),
            )
            for table, suite, other in (
                ("Table 1, CelebA", "masktune-celeba", "DivDis"),
                ("Table 2, Waterbirds", "masktune-waterbirds", "ERM"),
            )
        ),
        Entry("MaskTune, Table 3", "MaskTune relies less on backgrounds", status=ELSEWHERE),
        Entry(
            "MaskTune, Tables 4 and 7, CIFAR-10",
            "MaskTune errs less than OSP and SR at a coverage of 95 %",
            "masktune-table4",
            ours=lambda: abstention(ours),
            theirs=lambda: abstention(paper),
        ),
        Entry("MaskTune, Tables 4 and 7, SVHN, Cats vs Dogs", "The same", status=OPEN),
        Entry("MaskTune, Figures 1 and 3", "Pictures of the method and of maps", status=PICTURE),
        Entry(
            "MaskTune, Table 5",
            "Two accumulated iterations are above one",
            "masktune-table5",
            **compare(
                "masktune-table5",
                "two squares",
                "biased",
                "2 iterations, accumulative",
                "1 iteration",
            ),
        ),
        Entry(
            "MaskTune, Table 6",
            "MaskTune is above random windows of any size",
            "masktune-table6",
            **compare("masktune-table6", "one square", "biased", "MaskTune", "RandMask, any size"),
        ),
        Entry(
            "Alignment, Table 1, LeNet, RPS-Grad",
            "l2 + cosine is the most robust",
            "alignment-table1",
            **compare("alignment-table1", "lenet", "RPS-Grad", BEST, ("l2", "Hessian", "CE only")),
            show=number,
        ),
        Entry(
            "Alignment, Table 1, LeNet, order",
            "l2 is more robust than Hessian",
            "alignment-table1",
            **compare("alignment-table1", "lenet", "RPS-Grad", "l2", "Hessian"),
            show=number,
        ),
        Entry(
            "Alignment, Table 1, LeNet, Insertion",
            "xGrad has a higher Insertion than Grad (CE)",
            "alignment-table1",
            ours=lambda: insertion(ours),
            theirs=lambda: insertion(paper),
        ),
        Entry(
            "Alignment, Table 1, LeNet, Adv-Insertion",
            "l2 + cosine has the highest Adv-Insertion-Grad",
            "alignment-table1",
            **compare(
                "alignment-table1", "lenet", "A-Ins-Grad", BEST, ("l2", "Hessian", "CE only")
            ),
        ),
        Entry("Alignment, Table 1, ResNet-18", "The same", status=OPEN),
        Entry("Alignment, Table 1, ImageNet-100", "The same", status=ELSEWHERE),
        *(
            Entry(
                f"Alignment, Table 2, {net}",
                f"A step takes at most {most:.2f} times one of CE",
                status="run on a processor, `benchmarks/alignment_step_time.py`",
                ours=lambda step=step, most=most: (
                    most,
                    figures("alignment_step_time")[step]["alignment"]["time"],
                ),
                show=number,
            )
            for net, step, most in (
                ("LeNet", "lenet_softplus, batch 128", 2.75),
                ("ResNet-18", "resnet18_softplus, batch 128", 4.10),
            )
        ),
        Entry(
            "Alignment, Figure 2",
            "l2 + cosine has a higher Adv-Insertion than CE",
            status="run in small, `benchmarks/adv_insertion_of_runs.py`",
            ours=lambda: (adv_insertion(BEST), adv_insertion("CE only")),
            theirs=lambda: (
                paper("alignment-table1", "lenet", BEST, "A-Ins-Grad"),
                paper("alignment-table1", "lenet", "CE only", "A-Ins-Grad"),
            ),
        ),
        Entry(
            "Alignment, Figure 3",
            "An attack moves the maps of CE more than those of l2 + cosine",
            status="run in small, `benchmarks/manipulation_figure.py`",
            ours=lambda: (moved("CE only"), moved(BEST)),
        ),
        Entry("Alignment, Figure 1", "A drawing of level curves", status=PICTURE),
        Entry("ReFF, Table 1 (a)", "ReFF costs nothing where p is above 0", status=OPEN),
        Entry(
            "ReFF, Table 1 (b)",
            "Without background randomness ReFF helps at every q",
            status=OPEN,
        ),
        Entry(
            "ReFF, Table 2",
            "Several layers are better than one, digits of half the size",
            "reff-table2",
            **compare("reff-table2", "digit 16", "accuracy", "ReFF", "ReFF (single layer)"),
        ),
        Entry(
            "ReFF, Table 3 (a)",
            "ReFF is above the baseline",
            "reff-table3",
            **compare("reff-table3", "p = 0", "accuracy", "ReFF", "baseline"),
        ),
        Entry(
            "ReFF, supplement, Table 2",
            "ReFF is above ReFF (L2) with all masks",
            "reff-table3",
            **compare("reff-table3", "p = 0", "accuracy", "ReFF", "ReFF (L2)"),
        ),
        Entry(
            "ReFF, Table 3 (b)",
            "With all masks ABN is above ReFF",
            "reff-table3",
            **compare("reff-table3", "p = 0", "accuracy", "ABN", "ReFF"),
        ),
        Entry("ReFF, Table 3, ISIC 2017", "ReFF is above the baseline", status=OPEN),
        Entry("ReFF, Table 3, Pets", "ReFF costs no more than half a point", status=OPEN),
        Entry(
            "ReFF, supplement, Table 2, n = 10",
            "Ten annotations of each class are above the baseline (here ReFF (L2))",
            "reff-table3",
            **compare("reff-table3", "p = 0", "accuracy", "ReFF (L2, n = 10)", "baseline"),
        ),
        Entry("ReFF, supplement, Table 3", "ReFF helps with textured digits", status=OPEN),
        Entry("ReFF, all figures", "Pictures of heat maps and masks", status=PICTURE),
    ]


DENSITY, PLAIN_DENSITY = "Density (log-sum-exp)", "Density (plain)"
BLOCKS, ATTACK = ("density-table1", "block-mnist"), "PGD-20 linf 0.3, step 0.01"
BEST, LEAK, STABLE = "l2 + cosine", "leakage", "Density (stable)"
DENSITY_STEP, LOGSUMEXP = "resnet18, batch 128", "density logsumexp"
BESIDE = "10 classes, beside input_gradient"


def stable_steps() -> Numbers:
    """Steps with a finite penalty, of the stable form and of the plain one."""
    runs = figures("density_stability")["training"]
    stable, plain = (
        sum(value is not None for _, value in runs[form]) for form in ("logsumexp", "plain")
    )
    return stable, plain


def adv_insertion(method: str) -> float:
    return figures("adv_insertion_of_runs")["adv_insertion"][method]["mean"]


def moved(method: str) -> float:
    """What an attack within 2/255 adds to the share of important pixels on the frame."""
    found = figures("manipulation")["epsilon 2/255"][method]
    share = "share of the top tenth on the frame"
    return found[f"{share} after"] - found[f"{share} before"]


def leakage() -> Numbers:
    """Two thirds of InputGrad's leakage and Density's, means over accuracies that both have."""
    rows = figures("density_figure4")["at_equal_accuracy"][DENSITY]["InputGrad"]
    means = [sum(row[name] for row in rows) / len(rows) for name in ("beside", "leakage")]
    return 2 / 3 * means[0], means[1]


def abstention(get: Callable[[str, str, str, str], float]) -> Numbers:
    mask, osp, sr = (
        get("masktune-table4", "cifar10", method, "error at 95 %")
        for method in ("MaskTune", "OSP", "SR")
    )
    return min(osp, sr), mask


def insertion(get: Callable[[str, str, str, str], float]) -> Numbers:
    names = ("Ins-xGrad", "Ins-Grad")
    first, second = (get("alignment-table1", "lenet", "CE only", name) for name in names)
    return first, second


def all_tables() -> str:
    """List all entries: claims that did not hold first, those without rows last."""
    order = {False: 0, True: 1, None: 2}
    listed = sorted(entries(), key=lambda entry: order[entry.held])
    header = ("table", "claim", "held", "ours", "paper or its code", "suite", "status")
    return markdown(header, [entry.row() for entry in listed])


def values() -> dict[str, str]:
    """Return every number of the page by its name."""
    found = [entry.held for entry in entries() if entry.state != PICTURE]
    names = {"held-not": False, "held": True, "held-unknown": None}
    counts = {name: str(sum(one is kind for one in found)) for name, kind in names.items()}
    return {
        "num-entries": str(len(entries())),
        "pictures": str(len(entries()) - len(found)),
        **counts,
    }


TABLES = {"all": all_tables}
