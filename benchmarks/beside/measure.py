"""How `benchmarks/beside_others.py` measures: rounds in turn, and the time of the process alone."""

import statistics
import time
from collections.abc import Mapping

from timing import Step

SECONDS, FEWEST, MOST = 5.0, 5, 40
Times = dict[str, list[float]]


def take_turns(
    steps: Mapping[str, Step], *, seconds: float = SECONDS, fewest: int = FEWEST
) -> Times:
    """Time the steps in rounds that run every step once, after a round that does not count.

    The clock counts the time of this process on its one thread, not that of other programs.
    Rounds go on until ``seconds`` are used, at least ``fewest`` and at most `MOST`.

    Args:
        steps: Steps by name.
        seconds: Time of the process to spend.
        fewest: Fewest rounds.
    """
    for step in steps.values():
        step()
    times: Times = {name: [] for name in steps}
    began = time.process_time()
    for number in range(MOST):
        if number >= fewest and time.process_time() - began > seconds:
            break
        for name, step in steps.items():
            times[name].append(clocked(step))
    return times


def ratio(times: Times, name: str, base: str) -> float:
    """The median over rounds of the ratio of two steps within a round."""
    pairs = zip(times[name], times[base], strict=True)
    return round(statistics.median(one / other for one, other in pairs), 3)


def clocked(step: Step) -> float:
    """Seconds of the process that a step takes."""
    began = time.process_time()
    step()
    return time.process_time() - began


def least(step: Step, rounds: int = 3) -> float:
    """The least seconds of the process among some calls, after one that does not count."""
    step()
    return min(clocked(step) for _ in range(rounds))
