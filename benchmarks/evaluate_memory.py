"""Measure the peak memory and the time of `evaluate` with default settings.

Each case runs in a process of its own, whose largest resident size the operating system tells. It
includes Python, PyTorch (about 0.3 GB) and the images themselves.

    python benchmarks/evaluate_memory.py [--case CASE ...] [--out FILE]

``resnet50`` measures every metric on 224 x 224 pixels, each in its turn and all at once for the
peak; ``--images`` says how many images. Slow metrics take hours on two processors: ``--few`` is the
number of images for those, whose seconds are then scaled. ``efficientnet`` is `evaluate` as a run
of ``rightreasons train`` calls it on 400 images of 96 x 96 pixels.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch

import rightreasons as rr
from rightreasons.metrics import METRICS
from timing import machine, publish

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
    "swap_accuracy",
}
"""Metrics that make ten passes or more for each sample."""


def images(number: int, side: int) -> rr.Batch:
    """Make random images with a square mask in a corner, in two classes and two groups."""
    torch.manual_seed(0)
    mask = torch.zeros(number, 1, side, side)
    mask[..., : side // 8, : side // 8] = 1
    y = torch.arange(number) % 2
    x = torch.rand(number, 3, side, side)
    return rr.Batch(x=x, y=y, mask=mask, group=torch.arange(number) // 2 % 2)


def measure(case: str, metrics: list[str], number: int) -> dict[str, object]:
    """Evaluate in this process, and tell its peak and its time."""
    name, side = ("resnet50", 224) if case == "resnet50" else ("efficientnet_lite0", 96)
    torch.manual_seed(0)
    model = rr.models.create(name, classes=2, channels=3, size=(side, side))
    batch = images(number, side)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    began = time.perf_counter()
    rr.evaluate(model, batch, metrics or None)
    return {
        "images": number,
        "seconds": round(time.perf_counter() - began, 1),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "before_gib": round(before, 2),
    }


def in_own_process(case: str, metrics: list[str], number: int) -> dict[str, object]:
    """Call `measure` in a new process."""
    command = [sys.executable, __file__, "--alone", case, str(number), *metrics]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {"images": number, "error": done.stderr.strip().splitlines()[-1][:300]}
    return dict(json.loads(done.stdout))


def measure_every_metric(number: int, few: int) -> dict[str, object]:
    """Measure each metric in a process of its own."""
    result: dict[str, object] = {}
    for name in sorted(METRICS):
        count = min(number, few) if name in SLOW else number
        found = in_own_process("resnet50", [name], count)
        if "seconds" in found and count < number:
            found["seconds_for_all"] = round(float(str(found["seconds"])) * number / count)
        result[name] = found
        print(name, found, file=sys.stderr, flush=True)
    return result


def main() -> None:
    if sys.argv[1:2] == ["--alone"]:
        case, number, *metrics = sys.argv[2:]
        print(json.dumps(measure(case, metrics, int(number))))
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--case", action="append", choices=["efficientnet", "resnet50"])
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--few", type=int, default=16, help="images for slow metrics")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    cases = options.case or ["efficientnet", "resnet50"]
    result: dict[str, object] = {"machine": machine()}
    if "efficientnet" in cases:
        result["efficientnet_lite0, 96 pixels, default metrics"] = in_own_process(
            "efficientnet", [], 400
        )
    if "resnet50" in cases:
        result["resnet50, 224 pixels"] = measure_every_metric(options.images, options.few)
    publish(result, options.out)


if __name__ == "__main__":
    main()
