"""Measure Adv-Insertion of a suite's finished runs on more images than the suite has.

`rightreasons bench run alignment-table1 --out OUT` keeps its runs in `OUT/runs`. The script takes
those of each method's chosen setting. It attacks the input gradient with the suite's settings.

    python benchmarks/adv_insertion_of_runs.py OUT --data-dir DIR [--samples 1000]
        [--out benchmarks/results/adv_insertion_of_runs.json]
"""

import statistics
from pathlib import Path

from rich.progress import track

import rightreasons as rr
from chosen_runs import chosen_runs, runs_parser
from rightreasons.metrics import AdvInsertion
from rightreasons.run import load_run
from timing import machine, publish

SUITE, METRIC = "alignment-table1", "adv_insertion"


def measured(folder: Path, data: rr.datasets.Splits, samples: int) -> float:
    """Measure one run's model on the first test images."""
    run = load_run(folder)
    settings = {**run.config.metric_settings[METRIC], "explainers": "input_gradient"}
    del settings["max_samples"]
    model = run.load_model(data)
    found = rr.evaluate(model, data.test, [AdvInsertion(**settings)], max_samples=samples)
    return found[METRIC]


def main() -> None:
    options = runs_parser(__doc__.split("\n")[0]).parse_args()
    runs, data = chosen_runs(SUITE, options.folder, options.data_dir)
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
