"""Adv-Insertion of a suite's finished runs on more images than the suite has time for.

Of the runs that `rightreasons bench run alignment-table1 --out OUT` left in `OUT/runs`, those of
each method's chosen setting. The input gradient alone is attacked, with the suite's own settings.

    python benchmarks/adv_insertion_of_runs.py OUT --data-dir DIR [--samples 1000]
        [--out benchmarks/results/adv_insertion_of_runs.json]
"""

import argparse
import statistics
from pathlib import Path

from rich.progress import track

import rightreasons as rr
from rightreasons import benchmark
from rightreasons.metrics import AdvInsertion
from rightreasons.run import load_run
from timing import machine, publish

SUITE, METRIC = "alignment-table1", "adv_insertion"


def chosen_runs(folder: Path) -> list[tuple[str, Path]]:
    """Every method's name with each of its runs."""
    lines = benchmark.show_suite(SUITE, folder).lines
    return [
        (line.line.method.name, folder / "runs" / row.address)
        for line in lines
        for row in line.rows
        if not row.failure
    ]


def measured(folder: Path, data: rr.datasets.Splits, samples: int) -> float:
    """Of one run's model, on the first test images."""
    run = load_run(folder)
    settings = {**run.config.metric_settings[METRIC], "explainers": "input_gradient"}
    del settings["max_samples"]
    model = run.load_model(data)
    found = rr.evaluate(model, data.test, [AdvInsertion(**settings)], max_samples=samples)
    return found[METRIC]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    runs = chosen_runs(options.folder)
    if not runs:
        parser.error(f"no runs of {SUITE} in {options.folder}: run the suite first")
    config = load_run(runs[0][1]).config
    data = rr.datasets.load(config.data, data_dir=options.data_dir, **config.data_settings)
    values: dict[str, list[float]] = {}
    for name, folder in track(runs, description="Attacking"):
        values.setdefault(name, []).append(round(measured(folder, data, options.samples), 4))
    rows = {
        name: {
            "mean": round(statistics.fmean(found), 4),
            "deviation": round(statistics.stdev(found), 4) if len(found) > 1 else None,
            "of each seed": found,
        }
        for name, found in values.items()
    }
    publish({METRIC: rows, "samples": options.samples, "machine": machine()}, options.out)


if __name__ == "__main__":
    main()
