"""Measure speed beside what a user would run instead, as ratios in one run.

    OMP_NUM_THREADS=1 python benchmarks/beside_others.py [--parts steps peers ...]
        [--out benchmarks/results/beside_others.json]

Six parts. ``steps``: a step of each recipe beside cross-entropy, beside its formula by hand, and
beside the way of R4's public code. ``peers``: explainers, attacks and measures of other libraries.
A library that is not installed is left out, and the command that installs it is printed. ``jobs``:
evaluation, certification and audit for 1,000 samples. ``growth``: time against the size of the
problem. ``passes``: where the time goes. ``compile``: steps with ``compile=True``
and in bfloat16.

Each round runs every step once, in turn. The clock is the time of this process, on one thread. So
other programs disturb little. A part that is measured again replaces its rows in ``--out``.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import timing
from beside import compiled, growth, measure, passes, peers, whole_jobs
from beside.by_hand import BY_HAND, of_embeddings, plain
from beside.cases import Case, cases
from beside.public_way import PUBLIC, SAME_NUMBERS

PLAIN, HAND, OURS, THEIRS = "cross-entropy", "by hand", "recipe", "public code"


def measure_steps(chosen: Callable[[str, str], bool]) -> list[dict[str, Any]]:
    """A row for each net and recipe, with ratios to cross-entropy and to the step by hand."""
    rows = []
    for name, case in cases().items():
        for recipe in (one for one in case.recipes if chosen(name, one)):
            torch.manual_seed(0)
            rows.append({"net": name, "samples": len(case.batch), **step_row(name, case, recipe)})
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows


def step_row(name: str, case: Case, recipe: str) -> dict[str, Any]:
    by_hand = BY_HAND.get(recipe)
    if name == "MiniLM":
        by_hand = {"erm": plain, "r3": of_embeddings}.get(recipe)
    steps = {PLAIN: case.hand_step(plain), OURS: case.step(recipe)}
    if by_hand is not None:
        steps[HAND] = case.hand_step(by_hand)
    times = measure.take_turns(steps)
    result: dict[str, Any] = {
        "recipe": recipe,
        "beside cross-entropy": measure.ratio(times, OURS, PLAIN),
        "milliseconds of cross-entropy": round(1000 * min(times[PLAIN]), 1),
    }
    if by_hand is not None:
        result["by hand beside cross-entropy"] = measure.ratio(times, HAND, PLAIN)
        result["beside by hand"] = measure.ratio(times, OURS, HAND)
    if name == "MLP" and recipe in PUBLIC:
        same = case.step(recipe, **SAME_NUMBERS.get(recipe, {}))
        times = measure.take_turns({THEIRS: case.hand_step(PUBLIC[recipe]), OURS: same})
        result["public code beside recipe"] = measure.ratio(times, THEIRS, OURS)
    return result


def machine() -> dict[str, object]:
    """Describe the processor and the software."""
    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
    return {
        **timing.machine(),
        "processor": names[0].partition(":")[2].strip() if names else platform.processor(),
        "cores": os.cpu_count(),
        "load": [round(one, 1) for one in os.getloadavg()],
        "clock": "time of the process",
    }


PARTS: dict[str, Callable[..., Any]] = {
    "steps": measure_steps,
    "peers": peers.compare,
    "jobs": whole_jobs.measure_jobs,
    "growth": growth.measure_growth,
    "passes": passes.measure_passes,
    "compile": compiled.measure_compiled,
}
BY_NET = ("steps", "passes", "compile")
"""Parts whose rows belong to nets, of which some can be measured again."""


def order_of(part: str) -> list[tuple[str, str]]:
    """Nets and recipes in the order of the rows."""
    if part == "compile":
        return [(net, one) for net, (_, _, recipes) in compiled.nets().items() for one in recipes]
    return [(net, one) for net, case in cases(scale=0).items() for one in case.recipes]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    known_nets = [*cases(scale=0), *compiled.nets()]
    parser.add_argument("--nets", nargs="+", choices=known_nets, default=[])
    parser.add_argument("--recipes", nargs="+", default=[])
    parser.add_argument("--axes", nargs="+", choices=growth.AXES, default=list(growth.AXES))
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    for part in options.parts:
        has_rows = options.out is not None and options.out.exists()
        before = json.loads(options.out.read_text()) if has_rows else {}
        if part in BY_NET:
            rows = PARTS[part](
                lambda net, recipe: (
                    (not options.nets or net in options.nets)
                    and (not options.recipes or recipe in options.recipes)
                )
            )
            known = {(row["net"], row["recipe"]): row for row in [*before.get(part, []), *rows]}
            found = [known[key] for key in order_of(part) if key in known]
        elif part == "growth":
            found = {**before.get(part, {}), **PARTS[part](options.axes)}
        else:
            found = PARTS[part]()
        timing.publish({**before, part: found, f"machine of {part}": machine()}, options.out)


if __name__ == "__main__":
    main()
