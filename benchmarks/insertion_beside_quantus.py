"""Compare Insertion with Quantus in one run: the values and the time.

Quantus has no insertion, but its pixel flipping can give it. Given the pixels' ranks in the order
of importance, it removes the least important first. What is left after a share of 1 - r is what
insertion shows at the ratio r. It flips the channels of a pixel one by one, but refuses steps that
do not divide the number of pixels. With three channels only every third of its passes is one of
insertion's. The ratio includes the other two thirds. Both sides get the same images and the same
net, and each makes its own batches.

    pip install quantus
    python benchmarks/insertion_beside_quantus.py [--images 1000] [--data-dir ../shared/data]
        [--out benchmarks/results/insertion_beside_quantus.json]
"""

import argparse
import statistics
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn

import rightreasons as rr
from rightreasons.explainers import InputGradient
from rightreasons.metrics import Insertion
from timing import publish

STEPS = 16  # so that a step is a whole number of the 1,024 pixels
RATIOS = tuple(step / STEPS for step in range(STEPS))


def by_quantus(model: nn.Module, batch: rr.Batch) -> tuple[float, float]:
    """Return the seconds, and the mean over images and ratios."""
    import quantus

    channels, *size = batch.x.shape[1:]
    pixels = size[0] * size[1]

    def explained(model: nn.Module, inputs: np.ndarray, targets: np.ndarray, **_: object):
        x, y = torch.as_tensor(inputs).float(), torch.as_tensor(targets).long()
        maps = InputGradient()(model, x, y).abs().sum(dim=1, keepdim=True)
        order = maps.flatten(1).argsort(dim=1, descending=True, stable=True)
        return order.argsort(dim=1).float().reshape(maps.shape).numpy()

    metric = quantus.PixelFlipping(
        features_in_step=pixels // STEPS,
        perturb_baseline=0.0,
        normalise=False,
        abs=False,
        return_auc_per_sample=False,
        disable_warnings=True,
        display_progressbar=False,
    )
    began = time.perf_counter()
    curves = metric(
        model=model,
        x_batch=batch.x.numpy(),
        y_batch=batch.y.numpy(),
        a_batch=None,
        explain_func=explained,
        softmax=True,
        channel_first=True,
    )
    seconds = time.perf_counter() - began
    curves = np.asarray(curves, dtype=np.float64)  # (images, channels · STEPS)
    return seconds, float(curves[:, channels - 1 :: channels].mean())


def by_library(model: nn.Module, batch: rr.Batch) -> tuple[float, float]:
    began = time.perf_counter()
    found = rr.evaluate(model, batch, [Insertion(ratios=RATIOS)])
    return time.perf_counter() - began, found["insertion"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--few", type=int, default=250, help="images for Quantus")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds")
    parser.add_argument("--width", type=float, default=0.25, help="width of LeNet")
    parser.add_argument("--data-dir", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    model = rr.models.create("lenet", classes=10, channels=3, size=32, width=options.width)
    data = rr.datasets.load("cifar10", data_dir=options.data_dir)
    some_images = data.train.take(torch.arange(5000))  # so that probabilities are not all alike
    rr.fit(model, rr.recipes.erm(), some_images, epochs=2, batch_size=50, lr=2e-3, progress=False)
    model.eval()
    test = data.test
    batch, some = (test.take(torch.arange(number)) for number in (options.images, options.few))
    _, value = by_library(model, some)  # the first of each also warms up
    _, other = by_quantus(model, some)
    rounds = [
        (by_library(model, batch)[0], by_quantus(model, some)[0]) for _ in range(options.rounds)
    ]
    ours, theirs = (statistics.median(seconds) for seconds in zip(*rounds, strict=True))
    scaled = theirs * options.images / options.few
    result = {
        "images": options.images,
        "few": options.few,
        "rounds": options.rounds,
        "width": options.width,
        "threads": torch.get_num_threads(),
        "seconds": {"library": ours, "quantus": scaled},
        "times_faster": round(scaled / ours, 2),
        "insertion on the few": {"library": value, "quantus": other},
    }
    publish(result, options.out)


if __name__ == "__main__":
    main()
