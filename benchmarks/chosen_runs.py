"""Find a suite's finished runs of each method's chosen setting."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import rightreasons as rr
from rightreasons import benchmark
from rightreasons.run import load_run

Runs = list[tuple[str, Path]]


def runs_parser(description: str) -> argparse.ArgumentParser:
    """Make a parser for a folder of runs, the data, the number of samples and the output."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("folder", type=Path, help="what `bench run` was given as --out")
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=None)
    return parser


def chosen_runs(
    suite: str, folder: Path, data_dir: str, methods: Sequence[str] | None = None
) -> tuple[Runs, rr.datasets.Splits]:
    """Return each run with its method's name, and the data that all runs share."""
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
