"""Measure the time and memory of MaskTune's second stage in one run.

The images are random and of the size of biased MNIST, half of them with its blue square. The net is
the paper's small one. Each round does each of these once, in turn:

- an evaluation pass with gradients: the predicted logit's gradient at the input, and, apart, at the
  layer XGrad-CAM reads, which is all it needs;
- masking: what the strategy does between its fits, the masks going to a file as in a run;
- an epoch of ERM;
- the whole second stage: masking, and an epoch on the covered images.

Time is the processor time of all threads, so that other processes do not count. Figures are medians
over rounds, and ratios compare steps of the same round. Memory is counted, so that it is the same
in every run. It is the sum of two peaks: bytes in tensors, from the allocation events of
torch.profiler, and bytes in arrays and Python objects, from tracemalloc. The script measures
masking with masks in memory and in a file. It compares both with an evaluation pass in batches of
the same size, and with the size of the masks.

    OMP_NUM_THREADS=1 python benchmarks/masktune_cost.py [--num-samples 60000] [--rounds 3]
        [--out benchmarks/results/masktune_cost.json]
"""

import statistics
import tempfile
import time
from collections.abc import Sequence

import torch
from torch import Tensor, nn

import rightreasons as rr
from rightreasons.core.model_modes import record_outputs
from rightreasons.datasets import Card, Dataset, MaskBits, Splits, masked_input
from rightreasons.datasets.splitting import in_memory_splits
from rightreasons.explainers import last_spatial_layer
from rightreasons.strategies import MaskTune
from rightreasons.strategies.masktune import BATCH_SIZE, fine_tune
from rightreasons.strategies.strategy import Stages
from timing import (
    Step,
    machine,
    peak_array_bytes,
    peak_tensor_bytes,
    publish,
    ratio,
    seconds_of,
    step_parser,
)

SHAPE = (3, 28, 28)
SETTINGS = {"epochs": 1, "batch_size": 128, "optimizer": "sgd", "lr": 0.01, "progress": False}
INPUT, LAYER = "evaluation with gradients", "evaluation with gradients at the layer"
MASKING, EPOCH, SECOND = "masking", "an epoch of ERM", "second stage"


def biased_images(num_samples: int) -> Splits:
    """Make noise with a blue square in the corner of the first class."""
    x, y = torch.rand(num_samples, *SHAPE), torch.arange(num_samples) % 2
    blue = torch.tensor([0.0, 0.0, 1.0]).reshape(1, 3, 1, 1)
    x[:, :, :4, :4] = torch.where(y.reshape(-1, 1, 1, 1) == 0, blue, x[:, :, :4, :4])
    batch = rr.Batch(x=x, y=y)
    few = rr.Batch(x=x[:2], y=y[:2])
    card = Card(name="noise", classes=("0-4", "5-9"), shape=SHAPE)
    return in_memory_splits(train=batch, val=None, test=few, card=card)


def gradient(model: nn.Module, x: Tensor, layer: str | None) -> Tensor:
    """Differentiate the predicted logits at the input, or at a layer."""
    features = x.detach().requires_grad_(layer is None)
    kept: dict[str, Tensor] = {}
    with record_outputs(model, [layer] if layer else [], kept):
        logits = model(features)
    return torch.autograd.grad(logits.amax(dim=1).sum(), kept[layer] if layer else features)[0]


def evaluated(model: nn.Module, data: Dataset, layer: str | None) -> None:
    """Run an evaluation pass with gradients, batch by batch."""
    model.eval()
    for batch in data.batches(torch.split(torch.arange(len(data)), BATCH_SIZE)):
        gradient(model, batch.x, layer)


class Cost:
    """The steps that are measured, on one net and one set of images."""

    def __init__(self, num_samples: int) -> None:
        self.data = biased_images(num_samples)
        self.model = rr.models.small_cnn(classes=2, channels=3, size=SHAPE[1])
        self.objective = rr.recipes.erm()
        self.strategy = MaskTune()
        self.layer = last_spatial_layer(self.model, self.data.train.batch.x[:2])

    def stages(self, out: str | None) -> Stages:
        """Make the stages. Masks go to a file of the folder ``out``, or stay in memory."""
        return Stages(self.data, out=out, resume=False, settings=dict(SETTINGS))

    def steps(self) -> dict[str, Step]:
        """Return the steps by name, in the order of a round."""
        return {
            INPUT: lambda: evaluated(self.model, self.data.train, None),
            LAYER: lambda: evaluated(self.model, self.data.train, self.layer),
            MASKING: self.masking,
            EPOCH: self.epoch,
            SECOND: self.second_stage,
        }

    def masking(self) -> None:
        """Draw all masks and write them to a file."""
        with tempfile.TemporaryDirectory() as folder:
            self.strategy.masks(self.model, self.stages(folder))

    def masking_in_memory(self) -> MaskBits:
        """Draw all masks and keep them in memory."""
        return self.strategy.masks(self.model, self.stages(None))

    def epoch(self) -> None:
        """Train for an epoch."""
        with tempfile.TemporaryDirectory() as folder:
            self.first = self.stages(folder).fit(
                "train", self.model, self.objective, self.data.train
            )

    def second_stage(self) -> None:
        """Draw all masks and train for an epoch on what they leave."""
        with tempfile.TemporaryDirectory() as folder:
            stages = self.stages(folder)
            covered = masked_input(self.data.train, self.strategy.masks(self.model, stages))
            fine_tune(stages, self.model, self.objective, covered, self.first, epochs=1, lr=None)


def memory(cost: Cost) -> dict[str, float]:
    """Measure peaks in megabytes, the growth beyond an evaluation pass, and the masks' size."""
    steps: dict[str, Step] = {
        LAYER: cost.steps()[LAYER],
        f"{MASKING}, masks in a file": cost.masking,
        f"{MASKING}, masks in memory": cost.masking_in_memory,
    }
    peaks = {name: peak_tensor_bytes(step) + peak_array_bytes(step) for name, step in steps.items()}
    more = {
        f"{name}, beyond the evaluation": value - peaks[LAYER]
        for name, value in peaks.items()
        if name != LAYER
    }
    found = {**peaks, **more, "the masks": cost.masking_in_memory().rows.nbytes}
    return {name: round(value / 1e6, 2) for name, value in found.items()}


def measure(num_samples: int, rounds: int) -> dict[str, object]:
    """Measure seconds, ratios and memory."""
    seconds_of(Cost(min(num_samples, 2 * BATCH_SIZE)).steps(), 1)  # warms up
    cost = Cost(num_samples)
    seconds = seconds_of(cost.steps(), rounds, warm_up=0, clock=time.process_time)
    return {
        "seconds": {name: round(statistics.median(own), 2) for name, own in seconds.items()},
        "ratios": {
            f"{one} / {other}": ratio(seconds, one, other)
            for one, other in (
                (MASKING, INPUT),
                (MASKING, LAYER),
                (MASKING, EPOCH),
                (SECOND, EPOCH),
            )
        },
        "peak megabytes": memory(cost),
        "settings": {"num_samples": num_samples, "rounds": rounds, "batch_size": BATCH_SIZE},
        "machine": machine(),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    parser = step_parser(__doc__, rounds=3)
    parser.add_argument("--num-samples", type=int, default=60_000)
    options = parser.parse_args(arguments)
    torch.manual_seed(0)
    publish(measure(options.num_samples, options.rounds), options.out)


if __name__ == "__main__":
    main()
