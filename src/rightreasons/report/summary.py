"""Facts about the data, the methods and the runs, as names and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rightreasons.objectives.recipes import RECIPES
from rightreasons.report.record import Record
from rightreasons.report.section import Method, Section
from rightreasons.report.wording import duration, settings
from rightreasons.run.config import AS_IT_IS
from rightreasons.strategies import STRATEGIES

__all__ = ["RunRow", "data_facts", "method_facts", "recipe_meaning", "run_rows"]

MOST_NAMES = 12


@dataclass(frozen=True)
class RunRow:
    """One run's line in the list of runs.

    Args:
        method: Label of its method.
        seed: Random seed of the training.
        digest: First digits of the data's hash.
        seconds: Training time.
        versions: Versions of the software.
        folder: Folder of the run.
        message: The run's message on whether it learned.
    """

    method: str
    seed: int
    digest: str
    seconds: str
    versions: str
    folder: str
    message: str


def data_facts(section: Section) -> list[tuple[str, str]]:
    """The entries of the data set's card that are not empty."""
    card = section.card
    values = section.methods[0].first.part("data_settings")
    facts = [
        ("What it is", card.description),
        ("The shortcut", card.shortcut),
        ("Classes", _counted(card.classes)),
        ("Groups", _counted(card.groups)),
        ("Shape", " × ".join(map(str, card.shape))),
        ("Settings", settings({name: v for name, v in values.items() if name != "seed"})),
        ("Source", card.source),
        ("Licence", card.licence),
    ]
    return [(term, meaning) for term, meaning in facts if meaning]


def method_facts(method: Method) -> list[tuple[str, str]]:
    """The settings of a method and of its training."""
    first = method.first
    training = {name: v for name, v in first.part("training").items() if v is not None}
    facts = [
        ("Loss", _loss(method)),
        ("Settings", settings(first.part("settings"))),
        ("Model", _model(first)),
        ("Weights from", Path(str(first.part("weights").get("file", ""))).name),
        ("Training", settings(training)),
        ("Weights kept", _selection(method)),
        ("Seed" if len(method.seeds) == 1 else "Seeds", ", ".join(map(str, method.seeds))),
        ("Time", _time(method)),
    ]
    return [(term, meaning) for term, meaning in facts if meaning]


def recipe_meaning(recipe: str) -> str:
    """One line about a recipe and its strategy; empty if this version does not know them."""
    if recipe == AS_IT_IS:
        return "The model as it was given; nothing was trained."
    name, _, strategy = recipe.partition(" + ")
    lines = (RECIPES.describe().get(name, ""), STRATEGIES.describe().get(strategy, ""))
    return " ".join(line for line in lines if line)


def run_rows(section: Section) -> list[RunRow]:
    """One row for each run that counts."""
    return [
        RunRow(
            method=method.label,
            seed=record.seed,
            digest=str(record.results.get("data_sha256") or "unknown")[:12],
            seconds=duration(float(record.results.get("seconds") or 0.0)),
            versions=", ".join(f"{name} {word}" for name, word in record.part("versions").items()),
            folder=str(record.folder),
            message=str(record.part("diagnosis").get("message", "")),
        )
        for method in section.methods
        for record in method.records
    ]


def _counted(names: Sequence[str]) -> str:
    if not names:
        return ""
    more = f", and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{len(names)}: {', '.join(names[:MOST_NAMES])}{more}"


def _loss(method: Method) -> str:
    """The sum of terms; a weight that differs between seeds is given as a range."""
    summands = []
    for name in method.first.part("terms"):
        weights = [record.part("terms").get(name) for record in method.records]
        numbers = [weight for weight in weights if isinstance(weight, (int, float))]
        if numbers and min(numbers) == max(numbers) == 1:
            summands.append(name)
        elif numbers:
            ends = dict.fromkeys(f"{end:.4g}" for end in (min(numbers), max(numbers)))
            summands.append(f"{' to '.join(ends)} × {name}")
    return " + ".join(summands)


def _model(record: Record) -> str:
    words = [str(record.results["model"]), settings(record.part("model_settings"))]
    size = record.results.get("num_parameters")
    words.append(f"{size:,} parameters" if size else "")
    return ", ".join(word for word in words if word)


def _selection(method: Method) -> str:
    epochs = [record.part("selection").get("epoch") for record in method.records]
    listed = ", ".join(str(epoch) for epoch in epochs if epoch is not None)
    if method.recipe == AS_IT_IS:
        return "as they were given"
    used = str(method.facts["select"])
    if used == "none":
        return "of the last epoch"
    return f"of the best epoch by {used.replace('_', ' ')} on validation data" + (
        f" ({listed})" if listed else ""
    )


def _time(method: Method) -> str:
    seconds = [float(record.results.get("seconds") or 0.0) for record in method.records]
    each = " a seed" if len(seconds) > 1 else ""
    return f"{duration(sum(seconds) / len(seconds))}{each}" if sum(seconds) else ""
