"""Measure the quality of pseudo-masks with few annotations on textured MNIST.

The images are those of the suite ``reff-table3``. A pseudo-annotator learns from n annotated
training images of each class, n = 1 to 50. The script compares its masks with the annotations of
the validation images, which it never saw. The measures are the overlap (intersection over union) of
the digits and of everything else, and the calibration error over pixels. The images of a smaller n
are among those of a larger one.

    python benchmarks/pseudo_annotator.py [--data-dir ../shared/data] [--annotations 1 5 10 20 50]
        [--seeds 0 1 2] [--objectives segmentation pix2pix]
        [--out benchmarks/results/pseudo_annotator.json]
"""

import argparse
import statistics
import time
from pathlib import Path

import rightreasons as rr
from rightreasons.annotators import (
    PseudoAnnotator,
    draw_annotated,
    find_annotated,
    keep_annotations,
    mask_quality,
)
from rightreasons.benchmark.suites import reff as reff_part
from rightreasons.datasets import Splits
from timing import machine, publish

MEASURES = ("relevant_iou", "iou", "calibration_error")


def images(data_dir: Path) -> Splits:
    """Load the images of the suite in its small budget."""
    counts = reff_part.BUDGETS["small"].overrides["data_settings"]
    settings = {**reff_part.BASE["data_settings"], **counts}
    return rr.datasets.load("textured_mnist", data_dir=data_dir, **settings)


def quality(data: Splits, number: int, objective: str, seed: int) -> dict[str, float]:
    """Measure an annotator that learned from ``number`` masks of each class."""
    train = data.train
    places = draw_annotated(train.labels, find_annotated(train), number, seed=seed)
    annotator = PseudoAnnotator(objective=objective, seed=seed)
    began = time.process_time()
    annotator.fit(keep_annotations(train, places))
    took = time.process_time() - began
    found = mask_quality(data.val, lambda batch: annotator.masks(batch.x))
    return {**{name: found[name] for name in MEASURES}, "seconds": took}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", type=Path, default=Path("../shared/data"))
    parser.add_argument("--annotations", type=int, nargs="+", default=[1, 5, 10, 20, 50])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--objectives", nargs="+", default=["segmentation"], choices=["segmentation", "pix2pix"]
    )
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    data = images(options.data_dir)
    rows = []
    for objective in options.objectives:
        for number in options.annotations:
            runs = [quality(data, number, objective, seed) for seed in options.seeds]
            means = {
                name: round(statistics.fmean(run[name] for run in runs), 4) for name in runs[0]
            }
            each = [round(run["relevant_iou"], 3) for run in runs]
            named = {"objective": objective, "annotations a class": number}
            rows.append({**named, **means, "relevant_iou of each seed": each})
            print(rows[-1], flush=True)
    settings = {"seeds": options.seeds, "validation images": len(data.val)}
    publish({"rows": rows, "settings": settings, "machine": machine()}, options.out)


if __name__ == "__main__":
    main()
