"""The whole campaign: nets, certificates and traps over several processes, counted and printed."""

import os
import platform
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from importlib import metadata
from multiprocessing import get_context
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from rightreasons.bounds import METHODS
from tests.soundness.bounds import Finding, check_net
from tests.soundness.certificates import Attacked, check_certificates
from tests.soundness.nets import all_kinds
from tests.soundness.traps import TRAPS, check_trap

CHUNK = 10  # nets that a process checks before it reports
MOST_SHOWN = 20


@dataclass
class Campaign:
    """The counts of a campaign.

    Args:
        seed: Random seed; with the number of a net it gives the same net again.
    """

    seed: int
    nets: Counter[str] = field(default_factory=Counter)  # by precision
    points: Counter[tuple[str, str]] = field(default_factory=Counter)  # by kind and method
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)  # nets by kind and method
    num_points: int = 0
    num_comparisons: int = 0
    certified_nets: int = 0
    verified: int = 0
    certificate_points: int = 0
    traps: dict[str, str] = field(default_factory=dict)
    escapes: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    misled: list[int] = field(default_factory=list)
    seconds: float = 0.0

    def add_net(self, finding: Finding) -> None:
        """Count a net."""
        where = f"net {finding.number} ({finding.dtype}, {', '.join(finding.kinds)})"
        again = f"python -m tests.soundness --seed {self.seed} --net {finding.number}"
        if finding.refused is not None:
            self.refused.append(f"{where}: {finding.refused}\n  {again}")
            return
        self.nets[finding.dtype] += 1
        self.num_points += finding.num_points
        self.num_comparisons += finding.num_comparisons
        for kind in finding.kinds:
            for method in finding.methods:
                self.kinds[kind, method] += 1
                self.points[kind, method] += finding.num_points
        if finding.is_misled:
            self.misled.append(finding.number)
        if finding.escapes:
            self.escapes.append("\n  ".join([where, *finding.escapes[:4], again]))

    def add_certificates(self, attacked: Attacked) -> None:
        """Count the certificates of a net."""
        self.certified_nets += 1
        self.verified += attacked.num_verified
        self.certificate_points += attacked.num_points
        if attacked.broken:
            again = f"python -m tests.soundness --seed {self.seed} --certificate {attacked.number}"
            self.broken.append("\n  ".join([f"net {attacked.number}", *attacked.broken, again]))

    @property
    def false_traps(self) -> list[str]:
        """The constructions whose false certificates were believed."""
        return [name for name, outcome in self.traps.items() if outcome == "false"]

    @property
    def missing(self) -> list[str]:
        """The layer kinds that no net had, by method."""
        pairs = [(kind, method) for kind in all_kinds() for method in METHODS]
        return [f"{kind} by {method}" for kind, method in pairs if not self.kinds[kind, method]]

    @property
    def is_sound(self) -> bool:
        """Whether nothing escaped, nothing broke and nothing was refused by mistake."""
        return not (self.escapes or self.broken or self.false_traps or self.refused)

    def show(self, console: Console) -> None:
        """Print the counts as tables, then all that went wrong."""
        table = Table("layer kind", *(f"nets, {m}" for m in METHODS), "points", title="Bounds")
        for kind in all_kinds():
            nets = [f"{self.kinds[kind, method]:,}" for method in METHODS]
            table.add_row(kind, *nets, f"{self.points[kind, METHODS[0]]:,}")
        console.print(table)
        counts = Table("what", "count", show_header=False)
        for name, count in self.to_dict().items():
            if isinstance(count, int | float):
                counts.add_row(name, f"{count:,}")
        for name, outcome in self.traps.items():
            counts.add_row(f"trap: {name}", outcome)
        console.print(counts)
        wrong = {"escape": self.escapes, "broken": self.broken, "refused by mistake": self.refused}
        for title, texts in wrong.items():
            for text in texts[:MOST_SHOWN]:
                console.print(f"{title}: {text}", markup=False, highlight=False, soft_wrap=True)

    def to_dict(self) -> dict[str, Any]:
        """The counts as JSON has them."""
        return {
            "nets": self.nets.total(),
            "nets in float32": self.nets["float32"],
            "nets in float64": self.nets["float64"],
            "points": self.num_points,
            "comparisons": self.num_comparisons,
            "layer kinds": len({kind for kind, _ in self.kinds}),
            "kinds by method": len(self.kinds),
            "least nets of a kind": min(self.kinds.values(), default=0),
            "escapes": len(self.escapes),
            "nets refused": len(self.refused),
            "nets refused since PyTorch's gradient is wrong": len(self.misled),
            "numbers of these nets": self.misled,
            "certified nets": self.certified_nets,
            "verified samples": self.verified,
            "points at verified samples": self.certificate_points,
            "certificates broken": len(self.broken),
            "traps": self.traps,
            "false traps": len(self.false_traps),
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "kinds": {
                kind: {
                    **{method: self.kinds[kind, method] for method in METHODS},
                    "points": self.points[kind, METHODS[0]],
                }
                for kind in all_kinds()
            },
            "versions": {
                **{name: metadata.version(name) for name in ("rightreasons", "torch")},
                "python": platform.python_version(),
            },
        }


def run_campaign(
    *,
    seed: int,
    num_nets: int,
    num_certified: int,
    seconds: float | None = None,
    processes: int = 1,
    effort: int = 12,
    progress: bool = False,
) -> Campaign:
    """Check nets, certificates and traps.

    Args:
        seed: Random seed of the campaign.
        num_nets: Number of nets whose bounds are attacked.
        num_certified: Number of nets whose certificates are attacked.
        seconds: Start no new work after this time; None checks all.
        processes: Number of processes; 1 works in this one.
        effort: Number of restarts of each kind of search.
        progress: Whether to show a bar.
    """
    campaign = Campaign(seed)
    started = time.monotonic()
    campaign.traps = {name: check_trap(name) for name in TRAPS}
    tasks = _tasks(seed, num_nets, num_certified, effort)
    bar = Progress(console=Console(stderr=True), disable=not progress, transient=True)
    line = bar.add_task("attacking", total=num_nets + num_certified)
    is_over = lambda: seconds is not None and time.monotonic() - started > seconds  # noqa: E731
    with bar:
        for results in _results(tasks, processes, is_over):
            for result in results:
                if isinstance(result, Finding):
                    campaign.add_net(result)
                else:
                    campaign.add_certificates(result)
            bar.advance(line, len(results))
    campaign.seconds = time.monotonic() - started
    return campaign


Task = tuple[Callable[..., Finding | Attacked], int, range, int]


def _tasks(seed: int, num_nets: int, num_certified: int, effort: int) -> Iterator[Task]:
    """Chunks of work; nets and certificates come in turn, so that a short run has both."""
    nets = [range(k, min(k + CHUNK, num_nets)) for k in range(0, num_nets, CHUNK)]
    certified = [range(k, k + 1) for k in range(num_certified)]
    share = len(certified) / max(1, len(nets))
    done = 0
    for position, numbers in enumerate(nets, start=1):
        yield check_net, seed, numbers, effort
        while done < min(len(certified), round(share * position)):
            yield check_certificates, seed, certified[done], effort + effort // 2
            done += 1
    for numbers in certified[done:]:
        yield check_certificates, seed, numbers, effort + effort // 2


def _results(
    tasks: Iterator[Task], processes: int, is_over: Callable[[], bool]
) -> Iterator[list[Finding | Attacked]]:
    if processes == 1:
        for task in tasks:
            if is_over():
                return
            yield _run(task)
        return
    context = get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_begin) as pool:
        waiting: deque[Future[list[Finding | Attacked]]] = deque()
        for task in tasks:
            if is_over():
                break
            waiting.append(pool.submit(_run, task))
            if len(waiting) > 2 * processes:  # so that little is under way when time is up
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _begin() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)


def _run(task: Task) -> list[Finding | Attacked]:
    check, seed, numbers, effort = task
    found: list[Finding | Attacked] = []
    for number in numbers:
        try:
            found.append(check(seed, number, effort=effort))
        except Exception as error:  # one net that fails must not lose the others
            text = f"{type(error).__name__}: {error}"
            if check is check_net:
                found.append(Finding(number, "unknown", refused=text))
            else:
                found.append(Attacked(number, broken=[text]))
    return found
