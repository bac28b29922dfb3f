"""A suite's finished runs of each method's chosen setting, for the scripts beside this one."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import rightreasons as rr
from rightreasons import benchmark
from rightreasons.run.run import load_run

Runs = list[tuple[str, Path]]


def runs_parser(description: str) -> argparse.ArgumentParser:
    """Arguments of a script that looks at runs again."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("folder", type=Path, help="what `bench run` was given as --out")
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=None)
    return parser


def chosen_runs(
    suite: str, folder: Path, data_dir: str, methods: Sequence[str] | None = None
) -> tuple[Runs, rr.datasets.Splits]:
    """Every method's name with each of its runs, and the data of all of them."""
    runs = [
        (line.line.method.name, folder / "runs" / row.address)
        for line in benchmark.show_suite(suite, folder).lines
        for row in line.rows
        if not row.failure and (methods is None or line.line.method.name in methods)
    ]
    if not runs:
        raise SystemExit(f"Expected runs of {suite} in {folder}, but found none: run the suite.")
    config = load_run(runs[0][1]).config
    return runs, rr.datasets.load(config.data, data_dir=data_dir, **config.data_settings)
