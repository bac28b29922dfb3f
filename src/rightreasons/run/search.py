"""The search for a repair: a journal of trials that survives a kill, a clock, and who runs them."""

from __future__ import annotations

import importlib.util
import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

from torch import nn

from rightreasons.core.files import Unreadable, read_json, write_json
from rightreasons.errors import InvalidSettingError, MissingExtraError
from rightreasons.run.config import Config
from rightreasons.run.methods import Method

__all__ = [
    "Clock",
    "Deadline",
    "OutOfTime",
    "Pool",
    "Search",
    "TrialJob",
    "Turn",
    "parse_box",
    "parse_duration",
    "require_optuna",
    "stop_in_time",
]

BEAT = 0.1
UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "": 1.0}
DURATION = re.compile(r"(?:\d+(?:\.\d+)?[hms]?)+")
PART = re.compile(r"(\d+(?:\.\d+)?)([hms]?)")
FULL_RANGE = "full"
LOWEST_RATE, HIGHEST_RATE = 0.1, 3.0
"""Ends of the search for a learning rate, times the first one."""


def parse_duration(text: str | float) -> float:
    """Read a time in seconds.

    Example:
        >>> parse_duration("30m"), parse_duration("1h30m"), parse_duration(90)
        (1800.0, 5400.0, 90.0)
    """
    written = str(text).strip().replace(" ", "").lower()
    seconds = 0.0
    if DURATION.fullmatch(written):
        seconds = sum(float(number) * UNITS[unit] for number, unit in PART.findall(written))
    if not 0 < seconds < float("inf"):
        raise InvalidSettingError(
            f"Expected `budget` as a time such as 30m, 1h30m or 90s, but got {text!r}. Set one "
            "(--budget)."
        )
    return seconds


def parse_box(certificate: float | str | None) -> float | None:
    """The distance that a certificate is for; None is the full range, or no certificate."""
    if certificate in (None, FULL_RANGE):
        return None
    try:
        box = float(str(certificate))
    except ValueError:
        box = 0.0
    if not 0 < box < float("inf"):
        raise InvalidSettingError(
            f"Expected `certificate` to be a distance above 0, or {FULL_RANGE!r} for every valid "
            f"value, but got {certificate!r}. Set one of them (--certificate)."
        )
    return box


def require_optuna() -> None:
    """Raise, before anything is measured, if Optuna is not installed."""
    if importlib.util.find_spec("optuna") is None:
        raise MissingExtraError("Searching for a repair", "fix")


class OutOfTime(BaseException):  # noqa: N818 - it ends a trial as Ctrl-C does, and is no error
    """The budget is used up in the middle of a trial."""


class Clock:
    """A budget of wall-clock time over all starts of a command; used as a context.

    A file remembers the time. Its content is what earlier starts took and when this one began; a
    thread touches it ten times a second. After a kill, the last touch says how long it ran.

    Args:
        path: The file.
        budget: Seconds in all.
    """

    def __init__(self, path: Path, budget: float) -> None:
        self.path, self.budget = path, budget
        self._before, self._start = 0.0, time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __enter__(self) -> Self:
        try:
            told = read_json(self.path)
            ran = max(self.path.stat().st_mtime - float(told["began"]), 0.0)
            self._before = float(told["spent"]) + ran
        except (OSError, Unreadable, KeyError, TypeError, ValueError):
            self._before = 0.0  # the first start
        self._write()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        self._write()

    @property
    def spent(self) -> float:
        """Seconds that all starts together took."""
        return self._before + time.monotonic() - self._start

    @property
    def remaining(self) -> float:
        """Seconds that are left."""
        return self.budget - self.spent

    def _write(self) -> None:
        write_json(self.path, {"spent": self.spent, "began": time.time(), "budget": self.budget})

    def _beat(self) -> None:
        while not self._stop.wait(BEAT):
            try:
                os.utime(self.path)
            except OSError:  # the folder was removed: the next write says so
                return


class Deadline(NamedTuple):
    """The end of a budget, for a worker that does not keep the clock.

    Args:
        at: Time of the day in seconds, as `time.time` gives it.
    """

    at: float

    @property
    def remaining(self) -> float:
        """Seconds that are left."""
        return self.at - time.time()


def stop_in_time(model: nn.Module, clock: Clock | Deadline, reserve: float) -> None:
    """Let a model raise `OutOfTime` in its next pass once the budget, less a reserve, is used."""

    def check(module: nn.Module, inputs: object) -> None:
        del module, inputs
        if clock.remaining < reserve:
            raise OutOfTime

    check.only_records = True  # type: ignore[attr-defined]
    model.register_forward_pre_hook(check)


class Pool(Protocol):
    """Where trials run at once, such as a backend of `rightreasons.benchmark`."""

    def capacity(self) -> int:
        """How many can run at once."""

    def submit(self, job: Any) -> None:
        """Send a `TrialJob`."""

    def wait(self, seconds: float) -> list[tuple[str, Any]]:
        """Wait for a job; gives addresses and what became of them."""


@dataclass(frozen=True, kw_only=True)
class TrialJob:
    """A trial on its way to a worker.

    Args:
        address: Folder of the trial.
        config: Configuration of the trial.
        trials: What the worker makes its own `Trials` from.
    """

    address: str
    config: Config
    trials: dict[str, Any]

    def to_message(self, *, threads: int) -> dict[str, Any]:
        """What is sent to a worker that runs it with so many threads."""
        work = {"address": self.address, "config": asdict(self.config), "threads": threads}
        return {"trial": {**self.trials, **work}}


class Turn(NamedTuple):
    """One trial to run.

    Args:
        number: Its number, from 0.
        method: The method.
        values: Values of its settings, see `configure`.
        trial: The trial of Optuna.
    """

    number: int
    method: Method
    values: dict[str, Any]
    trial: Any


class Search:
    """Trials by Optuna, kept in a journal: each method once, then what promises most.

    What is drawn depends on the seed and the finished trials, not on how often the search was
    killed. A trial that was begun goes on first.

    Args:
        path: The journal. The caller must hold its folder.
        methods: The methods, in the order of their first trials.
        lr: Learning rate of the first trials.
        seed: Random seed for the draws.
    """

    def __init__(self, path: Path, methods: Sequence[Method], *, lr: float, seed: int) -> None:
        require_optuna()
        import optuna
        from optuna.storages.journal import JournalFileBackend

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._optuna = optuna
        self.methods = {method.name: method for method in methods}
        self.lr, self.seed = lr, seed
        _cut_torn_line(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            backend = JournalFileBackend(str(path), lock_obj=_Held())  # type: ignore[arg-type]
            self.study = optuna.create_study(
                storage=optuna.storages.JournalStorage(backend),
                study_name="fix",
                direction="maximize",
                load_if_exists=True,
            )
            for method in methods:
                first = {"method": method.name, "lr": lr, **method.first}
                self.study.enqueue_trial(first, skip_if_exists=True)

    @property
    def num_begun(self) -> int:
        """Number of trials that were begun, finished or not."""
        waiting = self._optuna.trial.TrialState.WAITING
        return sum(trial.state != waiting for trial in self.study.get_trials(deepcopy=False))

    def next_round(self, size: int, num_trials: int, may_begin: Callable[[], bool]) -> list[Turn]:
        """The trials that may run at once: those that did not end, then new ones.

        A round has ``size`` trials and is drawn before any of them runs. So what is drawn depends
        on the rounds before, not on which trial of a round ended first.

        Args:
            size: Number of trials in a round.
            num_trials: Most trials in all.
            may_begin: Whether there is time for another.
        """
        running = self._optuna.trial.TrialState.RUNNING
        turns = [
            self._suggest(self._optuna.trial.Trial(self.study, frozen._trial_id))
            for frozen in self.study.get_trials(deepcopy=False, states=(running,))
        ]
        while not turns or self.num_begun % size:
            if self.num_begun >= num_trials or not may_begin():
                break
            turns.append(self._begin())
        return turns

    def _begin(self) -> Turn:
        self._seed(self.num_begun)
        return self._suggest(self.study.ask())

    def end(self, turn: Turn, state: str, score: float | None) -> None:
        """Note how a trial ended: ``"finished"``, ``"stopped"`` or ``"failed"``."""
        states = self._optuna.trial.TrialState
        known = {"finished": states.COMPLETE, "stopped": states.PRUNED, "failed": states.FAIL}
        self.study.tell(turn.number, score, state=known[state])

    def _suggest(self, trial: Any) -> Turn:
        self._seed(trial.number)
        name = trial.suggest_categorical("method", list(self.methods))
        low, high = LOWEST_RATE * self.lr, HIGHEST_RATE * self.lr
        values = {"lr": trial.suggest_float("lr", low, high, log=True)}
        for setting, choices in self.methods[name].choices.items():
            key = f"{name}.{setting}"
            values[key] = trial.suggest_categorical(key, choices)
        return Turn(trial.number, self.methods[name], values, trial)

    def _seed(self, number: int) -> None:
        """Draw by the number of the trial, since a new process would draw the first ones again."""
        draw = self._optuna.samplers.TPESampler
        seed, first = self.seed * 1_000_003 + number, len(self.methods)
        self.study.sampler = draw(seed=seed, n_startup_trials=first)


class _Held:
    """No lock of Optuna's own: the folder is held, and a killed process would leave it locked."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        return None


def _cut_torn_line(path: Path) -> None:
    """Remove the end of a line that a killed process did not finish."""
    if path.exists():
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            with path.open("rb+") as file:
                file.truncate(whole)
