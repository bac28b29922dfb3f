"""The trials of a repair: each trains from the model's weights and is measured on validation."""

from __future__ import annotations

import csv
import io
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from rightreasons.core.files import read_json, writable_folder, write_atomically, write_json
from rightreasons.datasets import Dataset, Splits
from rightreasons.datasets.dataset import spread_over_classes
from rightreasons.datasets.wrappers import select
from rightreasons.errors import InvalidSettingError, OutputError, RightReasonsError
from rightreasons.objectives.recipes import RECIPES
from rightreasons.run.adopt import adopt_run
from rightreasons.run.config import AS_IT_IS, Config, load_config, save_config
from rightreasons.run.description import describe_fit
from rightreasons.run.methods import Facts, choose_methods, configure
from rightreasons.run.search import Clock, OutOfTime, Search, Turn, stop_in_time
from rightreasons.run.selection import Judge
from rightreasons.strategies.strategy import resume_files
from rightreasons.training.fit import fit

__all__ = ["Trials", "read_rows", "write_tried"]

TIMED_UPDATES = 4
SHARE_OF_REST = 1 / 3
"""Largest share of the time that is left which the epochs of one trial are chosen for."""
LEAST_RESERVE, MEASURED_AGAIN = 1.0, 1.8
"""What is kept for the end: seconds, and multiples of the time of the first measurement."""

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
    clock: Clock
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

    def search(self, num_trials: int) -> None:
        """Run trials until their number or the budget is used up."""
        journal, seed = self.folder / "trials.journal", self.config.seed
        search = Search(journal, self.methods, lr=self.config.lr, seed=seed)
        while True:
            turn = search.unfinished()
            if turn is None:
                if search.num_begun >= num_trials or self.clock.remaining <= self.reserve:
                    break
                turn = search.begin()
            row = self._try(turn)
            search.end(turn, row["state"], row["values"].get("score"))
            write_tried(self.folder)
            logger.info("Trial %d, %s: %s.", turn.number, turn.method.name, _say(row))

    def _try(self, turn: Turn) -> dict[str, Any]:
        """Run one trial, or read how it ended if only the journal misses that."""
        folder = self.folder / "trials" / f"{turn.number:03}-{turn.method.name}"
        if (folder / "trial.json").exists():
            row: dict[str, Any] = read_json(folder / "trial.json")
            return row
        writable_folder(folder)
        if (folder / "config.yaml").exists():
            config = load_config(folder)
        else:
            epochs = self._affordable_epochs(turn)
            first = self.first_weights
            config = configure(
                self.config, turn.method, turn.values, epochs=epochs, first_weights=first
            )
            save_config(folder, config)
        row = {
            "number": turn.number,
            "method": turn.method.name,
            "folder": str(folder.relative_to(self.folder)),
            "settings": {**config.settings, **config.strategy_settings},
            "lr": config.lr,
            "epochs": config.epochs,
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
        write_json(folder / "trial.json", row)
        for file in resume_files(folder):
            file.unlink(missing_ok=True)
        return row

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


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of all trials that ended, in their order."""
    files = sorted((folder / "trials").glob("*/trial.json"))
    rows: list[dict[str, Any]] = [read_json(file) for file in files]
    return sorted(rows, key=lambda row: int(row["number"]))


def write_tried(folder: Path, chosen: int | None = None) -> None:
    """Write the table of all trials, as JSON and as CSV."""
    rows = read_rows(folder)
    write_json(folder / "tried.json", {"chosen": chosen, "trials": rows})
    names = dict.fromkeys(name for row in rows for name in row["values"])
    text = io.StringIO()
    plain = ("number", "method", "state", "keeps", "lr", "epochs", "seconds")
    writer = csv.writer(text)
    writer.writerow([*plain, "settings", *names, "reason"])
    for row in rows:
        settings = " ".join(f"{name}={value}" for name, value in row["settings"].items())
        values = [row["values"].get(name, "") for name in names]
        writer.writerow([*(row[name] for name in plain), settings, *values, row["reason"]])
    write_atomically(folder / "tried.csv", lambda file: file.write(text.getvalue().encode()))


def _say(row: Mapping[str, Any]) -> str:
    if row["state"] != "finished":
        return f"{row['state']}, {row['reason']}"
    values, kept = row["values"], "kept" if row["keeps"] else "not kept"
    return f"score {values['score']:.3f}, accuracy {values['accuracy']:.3f} ({kept})"
