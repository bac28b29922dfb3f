"""Measure whether memory grows over the steps of every recipe, with the garbage collector off.

    OMP_NUM_THREADS=1 python benchmarks/step_memory.py [--steps 200] [--out FILE]

Each recipe trains a small net on one batch, step after step. The figures are the most bytes of
tensors alive at once, as the events of torch.profiler count them: in the first steps, and in all. A
step that leaves anything behind raises the second one.
"""

import argparse
import gc
from pathlib import Path

import torch
from torch import nn, optim

import rightreasons as rr
import timing
from rightreasons.datasets import Card, Dataset, InMemory, as_dataset
from rightreasons.datasets.dataset import TextCard
from rightreasons.models import Abstaining, attention_branch, create, with_softplus
from rightreasons.objectives.recipes import RECIPES

FIRST = 20
IMAGES = ("abn", "reff", "reff_l1", "reff_l2")


def model_and_batch(name: str) -> tuple[nn.Module, rr.Batch]:
    """Return a small net that suits a recipe, and a batch with masks and groups."""
    if name.startswith("token_"):
        tokens = torch.randint(3, 20, (9, 7))
        attention = torch.ones_like(tokens)
        masked = (torch.rand(9, 7) < 0.3).float()
        texts = rr.Batch(
            x=tokens, y=torch.arange(9) % 3, mask=masked, inputs={"attention_mask": attention}
        )
        return rr.models.text_mlp(vocabulary=20, classes=3, width=8), texts
    channels, side = (3, 16) if name in IMAGES else (1, 8)
    batch = rr.Batch(
        x=torch.rand(9, channels, side, side),
        y=torch.arange(9) % 3,
        mask=(torch.rand(9, 1, side, side) < 0.3).float(),
        group=torch.arange(9) % 2,
    )
    shape = {"classes": 3, "channels": channels, "size": (side, side)}
    if name == "abn":
        return attention_branch(classes=3), batch
    if name == "selective_net":
        return create("selective_net", **shape), batch
    if name == "deep_gamblers":
        return Abstaining(create("mlp", **{**shape, "classes": 4})), batch
    model = create("small_cnn" if name in IMAGES else "mlp", **shape)
    return with_softplus(model, 3.0), batch  # a Hessian is not zero


def data_of(batch: rr.Batch) -> Dataset:
    """Return the data of a batch; texts say which words may take the place of masked ones."""
    if batch.x.dtype.is_floating_point:
        return as_dataset(batch)
    text = TextCard(20, mask_token=2, special=(0, 1, 2), substitutes=(5, 7, 11, 13))
    return InMemory(batch, Card(name="texts", text=text))


def peaks(name: str, num_steps: int) -> tuple[int, int]:
    """Return the peak of the first steps, and that of all steps, in bytes of tensors."""
    torch.manual_seed(0)
    model, batch = model_and_batch(name)
    objective = RECIPES.create(name)
    objective.prepare(data_of(batch), num_passes=num_steps + 2)
    optimizer = optim.Adam(model.parameters(), lr=1e-4)
    step = timing.library_step(model, batch, objective, optimizer)

    def repeat(count: int) -> None:
        for _ in range(count):
            step()
        optimizer.zero_grad()  # the profiler knows no blocks from before it started

    gc.collect()
    gc.disable()
    try:
        repeat(2)  # the optimizer and automatic weights make their tensors once
        first, kept = timing.count_tensor_bytes(lambda: repeat(FIRST))
        later, _ = timing.count_tensor_bytes(lambda: repeat(num_steps - FIRST))
    finally:
        gc.enable()
    return first, max(first, kept + later)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    rows = {}
    for name in RECIPES:
        first, last = peaks(name, options.steps)
        rows[name] = {"first": first, "last": last, "ratio": round(last / first, 4)}
    result = {"first steps": FIRST, "steps": options.steps, "recipes": rows}
    timing.publish({**result, "machine": timing.machine()}, options.out)


if __name__ == "__main__":
    main()
