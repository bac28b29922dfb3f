"""What the scripts that time steps share: rounds in turn, peaks, and where the figures go."""

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
from torch.profiler import ProfilerActivity, profile

Step = Callable[[], object]
Seconds = dict[str, list[float]]


def seconds_of(
    steps: Mapping[str, Step],
    rounds: int,
    *,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Seconds:
    """The seconds of each step in each round.

    A round runs every step once, in turn, so that a busy machine slows all of them; the first
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
    """The median over rounds of the ratio of two steps within a round."""
    pairs = zip(seconds[name], seconds[base], strict=True)
    return round(statistics.median(one / other for one, other in pairs), 3)


def peak_tensor_bytes(step: Step) -> int:
    """The most bytes of tensors alive at once during a step, beyond those alive before it.

    From the allocation events of torch.profiler: neither the interpreter nor what an allocator
    keeps for later counts, so that two runs give the same number.
    """
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        step()
    held, peak = 0, 0
    for event in sorted(
        (one for one in profiled.profiler.kineto_results.events() if one.name() == "[memory]"),
        key=lambda one: one.start_ns(),
    ):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def peak_array_bytes(step: Step) -> int:
    """Likewise of arrays of numpy, and of all objects of Python."""
    gc.collect()
    tracemalloc.start()
    try:
        step()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def machine() -> dict[str, object]:
    """What the figures depend on beside the code."""
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
    }


def step_parser(description: str | None, *, rounds: int) -> argparse.ArgumentParser:
    """A parser of what every script takes: how many rounds, and where to write to."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--out", type=Path, default=None)
    return parser


def publish(result: Mapping[str, object], out: Path | None) -> None:
    """Print the figures, and write them if there is a file to write to."""
    text = json.dumps(result, indent=2)
    print(text)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n")
