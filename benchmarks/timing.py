"""What the scripts that time steps share: rounds in turn, ratios, and where the figures go."""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

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
