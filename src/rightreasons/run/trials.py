"""The trials of a repair: each trains from the model's weights and is measured on validation."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.progress import TimeElapsedColumn
from torch import nn

from rightreasons.core.files import read_json, writable_folder, write_json
from rightreasons.core.progress import live_bar
from rightreasons.datasets import Dataset, Splits
from rightreasons.datasets.dataset import spread_over_classes
from rightreasons.datasets.wrappers import select
from rightreasons.errors import InvalidSettingError, OutputError, RightReasonsError
from rightreasons.objectives.recipes import RECIPES
from rightreasons.run.adopt import adopt_run
from rightreasons.run.config import AS_IT_IS, Config, load_config, save_config
from rightreasons.run.description import describe_fit, read_rows, write_tried
from rightreasons.run.methods import Facts, choose_methods, configure
from rightreasons.run.search import (
    Clock,
    Deadline,
    OutOfTime,
    Pool,
    Search,
    TrialJob,
    Turn,
    stop_in_time,
)
from rightreasons.run.selection import Judge
from rightreasons.strategies.strategy import resume_files
from rightreasons.training.distributed import hold
from rightreasons.training.fit import fit

__all__ = ["Trials", "run_trial"]

TIMED_UPDATES = 4
SHARE_OF_REST = 1 / 3
"""Largest share of the time that is left which the epochs of one trial are chosen for."""
LEAST_RESERVE, MEASURED_AGAIN = 1.0, 1.8
"""What is kept for the end: seconds, and multiples of the time of the first measurement."""

WAIT_SECONDS, PATIENCE_SECONDS = 0.5, 60.0
"""How often a running round is looked at, and how long a worker waits for a folder in use."""

logger = logging.getLogger("rightreasons")


@dataclass
class Trials:
    """The trials of a repair, each in a folder of its own.

    Args:
        folder: Folder of the repair.
        config: Configuration of the model to repair, with its weights.
        data: All parts of the data; test data are used for the run ``before`` alone.
        facts: What the user has.
        clock: The budget.
        keep: By how much the accuracy that no shortcut explains may fall.
        epsilon: Box of the certificate, if one is asked for; None is the full range.
        progress: Whether to show live lines; None does so on a terminal.
        first_weights: File with the weights before training; None are those that it is built with.
    """

    folder: Path
    config: Config
    data: Splits
    facts: Facts
    clock: Clock | Deadline
    keep: float
    epsilon: float | None
    progress: bool | None
    first_weights: str | None = None

    def __post_init__(self) -> None:
        self.methods = choose_methods(self.facts, self.epsilon)
        # Trials never see the test data, so that nothing can be chosen by them.
        val = self.validation
        self.seen = Splits(train=self.data.train, val=val, test=val)
        began = time.monotonic()
        before = self.folder / "before"
        if not (before / "results.json").exists():
            as_it_is = replace(self.config, recipe=AS_IT_IS, settings={}, strategy="once")
            as_it_is = replace(as_it_is, strategy_settings={})
            adopt_run(as_it_is, before, data=self.data, progress=bool(self.progress))
        model, _ = self.config.start_model(self.data)
        self.judge = Judge.for_data(model.eval(), val, self.facts, epsilon=self.epsilon)
        if not (self.folder / "original.json").exists():
            values = self.judge.measure(model)
            told = {"values": values, "seconds": time.monotonic() - began}
            write_json(self.folder / "original.json", told)
        told = read_json(self.folder / "original.json")
        self.original: dict[str, float] = told["values"]
        self.reserve = LEAST_RESERVE + MEASURED_AGAIN * float(told["seconds"])
        logger.info("Repairs are chosen by the %s: %s.", self.judge.what, self.judge.why)

    @property
    def validation(self) -> Dataset:
        """The validation data, which there are."""
        if self.data.val is None:
            raise InvalidSettingError("Expected validation data, but got none. Hold some out.")
        return self.data.val

    def search(self, num_trials: int, pool: Pool | None = None) -> None:
        """Run trials until their number or the budget is used up.

        Args:
            num_trials: Most trials.
            pool: Where the trials of a round run at once; None runs one after the other here.
        """
        journal, seed = self.folder / "trials.journal", self.config.seed
        search = Search(journal, self.methods, lr=self.config.lr, seed=seed)
        size = 1 if pool is None else pool.capacity()

        def may_begin() -> bool:
            return self.clock.remaining > self.reserve

        while turns := search.next_round(size, num_trials, may_begin):
            folders = [self._prepare(turn) for turn in turns]
            missing = [one for one in folders if not (one / "trial.json").exists()]
            if pool is None:
                for folder in missing:
                    self._note(folder, self.run(load_config(folder), folder))
            else:
                self._run_in(pool, missing, size)
            for turn, folder in zip(turns, folders, strict=True):
                row = read_json(folder / "trial.json")
                search.end(turn, row["state"], row["values"].get("score"))
                write_tried(self.folder)
                logger.info("Trial %d, %s: %s.", turn.number, turn.method.name, _say(row))

    def _prepare(self, turn: Turn) -> Path:
        """Make the folder of a trial, with its configuration."""
        folder = writable_folder(self.folder / "trials" / f"{turn.number:03}-{turn.method.name}")
        if not (folder / "config.yaml").exists():
            more: dict[str, Any] = {
                "epochs": self._affordable_epochs(turn),
                "first_weights": self.first_weights,
            }
            save_config(folder, configure(self.config, turn.method, turn.values, **more))
        return folder

    def _note(self, folder: Path, result: Mapping[str, Any]) -> None:
        """Write the row of a trial that ended, and remove what only an unfinished one needs."""
        config, (number, _, method) = load_config(folder), folder.name.partition("-")
        row = {
            "number": int(number),
            "method": method,
            "folder": str(folder.relative_to(self.folder)),
            "settings": {**config.settings, **config.strategy_settings},
            "lr": config.lr,
            "epochs": config.epochs,
            **result,
        }
        write_json(folder / "trial.json", row)
        for file in resume_files(folder):
            file.unlink(missing_ok=True)

    def run(self, config: Config, folder: Path) -> dict[str, Any]:
        """Train and measure a trial; the part of its row that tells how it ended."""
        row: dict[str, Any] = {
            "state": "finished",
            "reason": "",
            "values": {},
            "keeps": False,
            "seconds": 0.0,
        }
        began = time.monotonic()
        try:
            model, row["seconds"] = self._train(config, folder)
            row["values"] = self.judge.measure(model)
            row["keeps"] = self.judge.keeps(row["values"], self.original, self.keep)
        except OutOfTime:
            row |= {"state": "stopped", "reason": "the budget was used up"}
            row["seconds"] = time.monotonic() - began
        except OutputError:
            raise
        except RightReasonsError as error:
            row |= {"state": "failed", "reason": str(error)}
        return row

    def _run_in(self, pool: Pool, folders: Sequence[Path], size: int) -> None:
        """Run trials at once; only this process writes their rows."""
        about = {
            "folder": str(self.folder.resolve()),
            "config": asdict(self.config.with_whole_paths()),
            "facts": asdict(self.facts),
            "deadline": time.time() + self.clock.remaining,
            "keep": self.keep,
            "epsilon": self.epsilon,
            "first_weights": self.first_weights,
            "data_sha256": self.data.digest(),
        }
        waiting, running = [*folders], set[str]()
        with live_bar(TimeElapsedColumn(), show=self.progress) as bar:
            task = bar.add_task("trials of this round", total=len(folders))
            while waiting or running:
                while waiting and len(running) < size:
                    folder = waiting.pop(0)
                    config = load_config(folder)
                    pool.submit(TrialJob(address=str(folder), config=config, trials=about))
                    running.add(str(folder))
                for address, outcome in pool.wait(WAIT_SECONDS):
                    if outcome.refused:
                        raise InvalidSettingError(outcome.refused)
                    failed = {"state": "failed", "reason": outcome.error, "values": {}}
                    failed |= {"keeps": False, "seconds": 0.0}
                    self._note(Path(address), failed if outcome.error else outcome.results)
                    running.remove(address)
                    bar.advance(task)

    def _train(self, config: Config, folder: Path) -> tuple[nn.Module, float]:
        objective, strategy = config.build_objective(), config.build_strategy()
        model, _ = config.start_model(self.seen)
        stop_in_time(model, self.clock, self.reserve)
        arguments = config.to_arguments()
        fitted = strategy.fit(
            model,
            objective,
            self.seen,
            **arguments,
            out=folder,
            resume=True,
            progress=self.progress,
            checkpoint_seconds=10.0,
        )
        write_json(folder / "fit.json", describe_fit(config, fitted))
        return strategy.deployed(model, folder), fitted.seconds

    def _affordable_epochs(self, turn: Turn) -> int:
        """Epochs that fit a third of the time that is left; at most those of a whole training."""
        most = replace(self.config, epochs=None).for_samples(len(self.data.train)).known("epochs")
        num_updates = -(-len(self.data.train) // self.config.known("batch_size"))
        each = turn.method.cost * self._time_update() * num_updates
        for row in read_rows(self.folder):
            if row["method"] == turn.method.name and row["state"] == "finished":
                each = row["seconds"] / row["epochs"]
        left = SHARE_OF_REST * max(self.clock.remaining - self.reserve, 0.0)
        return min(max(int(left / max(each, 1e-6)), 1), most)

    def _time_update(self) -> float:
        """Seconds of an update of plain training, measured once."""
        path = self.folder / "timing.json"
        if not path.exists():
            batch_size = self.config.known("batch_size")
            some = spread_over_classes(self.data.train.labels, TIMED_UPDATES * batch_size)
            model, _ = self.config.start_model(self.seen)
            settings = replace(self.config, epochs=1, select="none").to_arguments()
            part = select(self.data.train, some)
            fitted = fit(model, RECIPES.create("erm"), part, **settings, progress=False)
            num = -(-len(some) // batch_size)
            write_json(path, {"seconds_per_update": fitted.seconds / num})
        return float(read_json(path)["seconds_per_update"])


_workers: dict[str, Trials] = {}
"""The repair that this worker process works for, by its folder."""


def run_trial(message: Mapping[str, Any]) -> dict[str, Any]:
    """Run a trial in a worker process; gives what `Trials.run` gives.

    The data are loaded by their path, once, and compared with the driver's.

    Raises:
        InvalidSettingError: This machine has other data, or does not see the driver's folder.
    """
    folder = Path(message["folder"])
    if not (folder / "original.json").exists():
        raise InvalidSettingError(
            f"Expected the folder of the repair, {folder}, on every node, but a worker does not "
            "see it. Use a folder that all nodes share (--out)."
        )
    torch.set_num_threads(message["threads"])
    deadline = Deadline(message["deadline"])
    if str(folder) not in _workers:
        config = Config(**message["config"])
        data = config.load_data()
        if data.digest() != message["data_sha256"]:
            raise InvalidSettingError(
                f"Expected the driver's data for {config.data} in every worker, but a worker has "
                "others. Give data that can be loaded by their name and folder, the same on every "
                "node."
            )
        _workers.clear()
        _workers[str(folder)] = Trials(
            folder=folder,
            config=config,
            data=data,
            facts=Facts(**message["facts"]),
            clock=deadline,
            keep=message["keep"],
            epsilon=message["epsilon"],
            progress=False,
            first_weights=message["first_weights"],
        )
    trials, place = _workers[str(folder)], folder / "trials" / Path(message["address"]).name
    trials.clock = deadline
    with hold(place, patience=PATIENCE_SECONDS):  # a worker of a killed driver may still save
        return trials.run(load_config(place), place)


def _say(row: Mapping[str, Any]) -> str:
    if row["state"] != "finished":
        return f"{row['state']}, {row['reason']}"
    values, kept = row["values"], "kept" if row["keeps"] else "not kept"
    return f"score {values['score']:.3f}, accuracy {values['accuracy']:.3f} ({kept})"
