"""Measure the peak memory and the time of `evaluate` with default settings.

Each case is one call of `evaluate` in a process of its own, whose largest resident size the
operating system tells. That includes Python and PyTorch, and the images themselves.

    python benchmarks/evaluate_memory.py [--case CASE ...] [--few 4] [--out FILE]

``efficientnet``: the metrics of a run by default, on 400 images of 96 x 96 pixels. ``resnet50``:
every metric, on 256 images of 224 x 224 pixels. Metrics that make ten passes or more for a sample
take hours of a processor. They measure ``--few`` of the images, and ``seconds_for_all`` scales the
time. A pass has at most a few rows, so that more images do not raise the peak.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

import rightreasons as rr
from rightreasons.datasets import InMemory
from rightreasons.metrics import METRICS, Metric, suitable
from rightreasons.probe.probe import Probe
from timing import machine, publish

CASES = {"efficientnet": ("efficientnet_lite0", 96, 400), "resnet50": ("resnet50", 224, 256)}
"""The model of each case, the side of its images, and their number."""
SLOW = {
    "adv_insertion",
    "adversarial_accuracy",
    "certified_change",
    "feature_leakage",
    "gradient_fragility",
    "gradient_robustness",
    "density_robustness",
    "deletion",
    "insertion",
    "pixel_perturbation",
    "relative_core_sensitivity",
    "robust_criterion",
    "rps",
    "substitution_sensitivity",
    "swap_accuracy",
}
"""Metrics that make ten passes or more for each sample."""
OF_TEXTS = {"comprehensiveness", "sufficiency", "token_agreement"}
"""Metrics that refuse images."""


def images(number: int, side: int) -> rr.Batch:
    """Make random images with a square mask in a corner, in two classes and two groups."""
    torch.manual_seed(0)
    mask = torch.zeros(number, 1, side, side)
    mask[..., : side // 8, : side // 8] = 1
    y = torch.arange(number) % 2
    x = torch.rand(number, 3, side, side)
    return rr.Batch(x=x, y=y, mask=mask, group=torch.arange(number) // 2 % 2)


def measure(case: str, few: int) -> dict[str, object]:
    """Evaluate in this process, and tell its peak and its time."""
    name, side, number = CASES[case]
    torch.manual_seed(0)
    model = rr.models.create(name, classes=2, channels=3, size=(side, side))
    batch = images(number, side)
    metrics = suitable(InMemory(batch)) if case == "efficientnet" else every_metric(few)
    seconds = {metric.name: 0.0 for metric in metrics}
    for metric in metrics:
        metric.update = timed(metric, seconds)  # type: ignore[method-assign]
    began, start = time.perf_counter(), peak_gib()
    rr.evaluate(model, batch, metrics)
    counts = {metric.name: min(metric.max_samples or number, number) for metric in metrics}
    return {
        "images": number,
        "seconds": round(time.perf_counter() - began, 1),
        "peak_gib": peak_gib(),
        "before_gib": start,
        "metrics": {
            name: {
                "images": counts[name],
                "seconds": round(took, 1),
                "seconds_for_all": round(took * number / counts[name], 1),
            }
            for name, took in seconds.items()
        },
    }


def every_metric(few: int) -> list[Metric]:
    metrics = [METRICS.create(name) for name in sorted(set(METRICS) - OF_TEXTS)]
    return [metric.limit(few) if metric.name in SLOW else metric for metric in metrics]


def timed(metric: Metric, seconds: dict[str, float]) -> Callable[[Probe], None]:
    update = metric.update

    def timed_update(probe: Probe) -> None:
        began = time.perf_counter()
        update(probe)
        seconds[metric.name] += time.perf_counter() - began
        print(metric.name, round(seconds[metric.name], 1), peak_gib(), file=sys.stderr, flush=True)

    return timed_update


def peak_gib() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--case", action="append", choices=sorted(CASES))
    parser.add_argument("--few", type=int, default=4, help="images for slow metrics")
    parser.add_argument("--alone", action="store_true", help="measure in this very process")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(measure(options.case[0], options.few)))
        return
    result: dict[str, object] = {"machine": machine()}
    for case in options.case or sorted(CASES):
        command = [sys.executable, __file__, "--alone", "--case", case, "--few", str(options.few)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        result[case] = json.loads(done.stdout)
    publish(result, options.out)


if __name__ == "__main__":
    main()
