"""Helpers of the scripts that time steps: the steps, rounds in turn, peaks, and the output."""

import argparse
import gc
import json
import platform
import statistics
import time
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import nn, optim
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

import rightreasons as rr

Step = Callable[[], object]
Seconds = dict[str, list[float]]


def cross_entropy_step(
    model: nn.Module, batch: rr.Batch, optimizer: optim.Optimizer | None = None
) -> Step:
    """A training step of plain cross-entropy, written by hand.

    ``optimizer`` is Adam at a rate of 1e-4 by default.
    """
    optimizer = optimizer or optim.Adam(model.parameters(), lr=1e-4)

    def step() -> None:
        loss = functional.cross_entropy(model(batch.x), batch.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def library_step(
    model: nn.Module,
    batch: rr.Batch,
    objective: rr.Objective,
    optimizer: optim.Optimizer | None = None,
) -> Step:
    """A training step of an objective, as a user writes it in a loop of their own.

    ``optimizer`` is Adam at a rate of 1e-4 by default.
    """
    optimizer = optimizer or optim.Adam(model.parameters(), lr=1e-4)

    def step() -> None:
        loss = objective(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def seconds_of(
    steps: Mapping[str, Step],
    rounds: int,
    *,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Seconds:
    """Time each step in each round, in seconds.

    A round runs every step once, in turn, so that a busy machine slows all of them. The first
    ``warm_up`` rounds do not count.
    """
    seconds: Seconds = {name: [] for name in steps}
    for number in range(warm_up + rounds):
        for name, step in steps.items():
            began = clock()
            step()
            took = clock() - began
            if number >= warm_up:
                seconds[name].append(took)
    return seconds


def ratio(seconds: Seconds, name: str, base: str) -> float:
    """Return the median over rounds of the ratio of two steps within a round."""
    pairs = zip(seconds[name], seconds[base], strict=True)
    return round(statistics.median(one / other for one, other in pairs), 3)


def peak_tensor_bytes(step: Step) -> int:
    """Measure the most bytes of tensors alive at once during a step, beyond those before it.

    The allocation events of torch.profiler count neither the interpreter nor an allocator's cache.
    Two runs give the same number.
    """
    gc.collect()
    return count_tensor_bytes(step)[0]


def count_tensor_bytes(step: Step) -> tuple[int, int]:
    """Count the most bytes of tensors alive at once during a step, and those alive after it.

    Both are beyond those before the step. The garbage collector is left as it is.
    """
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        step()
    held, peak = 0, 0
    for event in sorted(
        (one for one in profiled.profiler.kineto_results.events() if one.name() == "[memory]"),
        key=lambda one: one.start_ns(),
    ):
        held += event.nbytes()
        peak = max(peak, held)
    return peak, held


def peak_array_bytes(step: Step) -> int:
    """Measure the most bytes of numpy arrays and Python objects alive at once during a step."""
    gc.collect()
    tracemalloc.start()
    try:
        step()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def machine() -> dict[str, object]:
    """Describe the software and the threads that the figures depend on."""
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
    }


def step_parser(description: str | None, *, rounds: int) -> argparse.ArgumentParser:
    """Make a parser for the number of rounds and the output file."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--out", type=Path, default=None)
    return parser


def publish(result: Mapping[str, object], out: Path | None) -> None:
    """Print the figures as JSON, and write them to ``out`` unless that is None."""
    text = json.dumps(result, indent=2)
    print(text)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n")
