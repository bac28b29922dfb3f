"""Sweep small cells on several backends, kill what runs them, and compare the tables.

    python benchmarks/sweep.py [--cells 60] [--epochs 40] [--rounds 1] [--parts kills gain]
                               [--out FILE]

The cells train a small net on the digits of scikit-learn. They run in this process. Then they run
on a Ray cluster of two nodes of this machine, one of which is killed in the middle. Then they run
in two processes whose driver is killed in the middle and started again. The figures say whether
each table is that of this process, and whether a cell is lost or has two rows. What a clock
measured does not count.

Last, one worker and two run the cells in turn. The ratio of their times is the gain. It needs two
cores that are free: the load before and after stands beside it. ``--parts gain`` measures it alone,
and keeps what the file has of the kills.
"""

import argparse
import json
import logging
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from rightreasons.benchmark import Budget, Measure, Method, Row, Suite, Variant, run_suite
from timing import machine, publish

SEEDS = 3
DRIVER = """
import sys
sys.path.insert(0, sys.argv[1])
from sweep import make_suite, run
run(make_suite(int(sys.argv[3]), int(sys.argv[4])), sys.argv[2], workers=2)
"""


def make_suite(cells: int, epochs: int) -> Suite:
    """Make a suite of so many cells: weights of R3 at three seeds."""
    weights = [10 ** (-2 + 4 * place / (cells // SEEDS)) for place in range(cells // SEEDS)]
    methods = [
        Method(name=f"R3 {n}", overrides={"recipe": "r3", "settings": {"weight": weight}})
        for n, weight in enumerate(weights)
    ]
    return Suite(
        name="sweep",
        title="A sweep of small cells",
        paper="",
        table="weights",
        base={
            "data": "decoy_digits",
            "model": "mlp",
            "model_settings": {"hidden": [64]},
            "metrics": ["group_accuracy", "swap_accuracy"],
        },
        variants=[Variant(name="digits")],
        methods=methods,
        measures=[Measure(key="swap_accuracy", name="swapped")],
        select_by="swap_accuracy",
        budgets={"small": Budget(seeds=range(SEEDS), overrides={"epochs": epochs})},
    )


def run(suite: Suite, out: str | Path, **settings) -> list[Row]:
    """Run a suite on processors."""
    return run_suite(suite, out=out, accelerator="cpu", progress=False, **settings)


def without_clock(value):
    """Leave out what a clock measured."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if k not in ("seconds", "finished")}
        return {name: without_clock(one) for name, one in kept.items()}
    return [without_clock(one) for one in value] if isinstance(value, list | tuple) else value


def table_of(out: Path) -> tuple[list[str], dict[str, object]]:
    """Read the addresses of all rows on disk, and the rows by address."""
    path = out / "results.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines]
    return [row["address"] for row in rows], {row["address"]: without_clock(row) for row in rows}


def compare(out: Path, expected: dict[str, object]) -> dict[str, object]:
    """Compare the table of a folder with the expected one."""
    addresses, table = table_of(out)
    return {
        "same table": table == expected,
        "rows": len(addresses),
        "cells twice": len(addresses) - len(set(addresses)),
        "cells lost": len(expected.keys() - table.keys()),
    }


def when_a_third_is_done(out: Path, cells: int, action: Callable[[], None]) -> threading.Thread:
    """Start a thread that acts once a third of the rows are there."""

    def watch() -> None:
        while len(table_of(out)[0]) < max(cells // 3, 1):
            time.sleep(0.05)
        action()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def on_ray(suite: Suite, out: Path, cells: int) -> dict[str, object]:
    """Run on two nodes of this machine; kill one in the middle."""
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - that is its name
    from ray.cluster_utils import Cluster

    size = {"num_cpus": 1, "object_store_memory": 80_000_000}
    cluster = Cluster(initialize_head=True, head_node_args={**size, "include_dashboard": False})
    second, killed = cluster.add_node(**size), {}

    def kill() -> None:
        killed["after rows"] = len(table_of(out)[0])
        cluster.remove_node(second, allow_graceful=False)

    began = time.perf_counter()
    thread = when_a_third_is_done(out, cells, kill)
    try:
        run(suite, out, backend="ray", address=cluster.address)
        thread.join()
    finally:
        cluster.shutdown()
    return {"node killed": killed, "seconds": round(time.perf_counter() - began, 1)}


def with_killed_driver(suite: Suite, out: Path, cells: int, epochs: int) -> dict[str, object]:
    """Run with two workers; kill the driver in the middle and start it again."""
    here = str(Path(__file__).parent)
    arguments = [here, str(out), str(cells), str(epochs)]
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, *arguments])
    when_a_third_is_done(out, cells, lambda: driver.send_signal(signal.SIGKILL)).join()
    driver.wait()
    before = len(table_of(out)[0])
    run(suite, out, workers=2)
    return {"driver killed": {"after rows": before, "exit code": driver.returncode}}


def gain(suite: Suite, root: Path, rounds: int) -> dict[str, object]:
    """Time one worker and two in turn."""
    loads, seconds = [os.getloadavg()[0]], {1: [], 2: []}
    for number in range(rounds):
        for workers, times in seconds.items():
            began = time.perf_counter()
            run(suite, root / f"{workers}-{number}", workers=workers)
            times.append(time.perf_counter() - began)
    loads.append(os.getloadavg()[0])
    ratios = [one / two for one, two in zip(seconds[1], seconds[2], strict=True)]
    return {
        "seconds of 1 worker": [round(one, 1) for one in seconds[1]],
        "seconds of 2 workers": [round(one, 1) for one in seconds[2]],
        "times as fast": round(statistics.median(ratios), 2),
        "cores": len(os.sched_getaffinity(0)),
        "load before and after": [round(load, 1) for load in loads],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cells", type=int, default=60, help="a multiple of 3")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--parts", nargs="+", choices=("kills", "gain"), default=["kills", "gain"])
    parser.add_argument("--out", type=Path, default=None)
    given = parser.parse_args()
    logging.getLogger("rightreasons").setLevel(logging.ERROR)
    suite = make_suite(given.cells, given.epochs)
    result: dict[str, object] = {}
    if given.out is not None and given.out.exists():
        result = json.loads(given.out.read_text())
    result |= {"cells": given.cells, "machine": machine()}
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        if "kills" in given.parts:
            began = time.perf_counter()
            run(suite, root / "here")
            _, expected = table_of(root / "here")
            here = {"seconds": round(time.perf_counter() - began, 1), "epochs": given.epochs}
            result["this process"] = {"rows": len(expected), **here}
            ray = on_ray(suite, root / "ray", given.cells)
            result["Ray, two nodes"] = {**compare(root / "ray", expected), **ray}
            publish(result, given.out)  # after each part, since all take minutes
            driver = with_killed_driver(suite, root / "driver", given.cells, given.epochs)
            result["two processes"] = {**compare(root / "driver", expected), **driver}
            publish(result, given.out)
        if "gain" in given.parts:
            measured = gain(suite, root / "gain", given.rounds)
            result["workers"] = {**measured, "epochs": given.epochs}
    publish(result, given.out)


if __name__ == "__main__":
    main()
