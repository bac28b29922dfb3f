"""Adopt a model: measure it as it is and write a run, which every other command takes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rightreasons.core.files import save_weights, writable_folder, write_json
from rightreasons.datasets import Dataset, Splits
from rightreasons.errors import CheckpointMismatchError, InvalidSettingError, OutputError
from rightreasons.models.own import is_own
from rightreasons.run.config import AS_IT_IS, Config, save_config
from rightreasons.run.description import describe_loading, describe_run
from rightreasons.run.examples import write_examples
from rightreasons.strategies.strategy import is_begun
from rightreasons.training.distributed import hold
from rightreasons.training.evaluate import evaluate_parts

__all__ = ["adopt_run"]

CLEARLY = 0.1
"""By how much a model must beat guessing on validation data to have learned something."""

logger = logging.getLogger("rightreasons")


def adopt_run(
    config: Config, out: str | Path, *, data: Splits | None = None, progress: bool = False
) -> dict[str, Any]:
    """Measure a model that was trained elsewhere and write a run; give its results.

    Nothing is trained. The folder has the weights, the results and the examples of a run, so that
    `evaluate_run`, `explain_run`, `certify_run` and the report take it.

    Args:
        config: Configuration of the run: data, model, weights and metrics count.
        out: Folder of the run.
        data: The data, if they are loaded already.
        progress: Whether to show bars.
    """
    if config.recipe != AS_IT_IS:
        raise InvalidSettingError(
            f"Expected `recipe` to be {AS_IT_IS!r} for a model that is not trained, but got "
            f"{config.recipe!r}. Use train_run to train it."
        )
    if config.weights is None and not is_own(config.model):
        raise InvalidSettingError(
            f"Expected `weights` for the model {config.model!r}, but got none: its weights would "
            "be random. Name a file (--weights FILE)."
        )
    data = data or config.load_data()
    parts: dict[str, Dataset | None] = {
        "test": data.test,
        "validation": data.val,
        **data.more_tests,
    }
    metrics = {split: config.build_metrics(split) for split in parts}
    model, loaded = config.start_model(data)
    if loaded is None:
        _refuse_random_weights(config, data, model)
    if loaded is not None and loaded.skipped:
        raise CheckpointMismatchError(
            f"Expected all weights of the model in {str(loaded.path)!r}, but these are missing or "
            f"for another number of classes: {', '.join(loaded.skipped)}. Train them with "
            "`rightreasons train --weights`, or give the model as many outputs as the file has."
        )
    describe_loading(loaded)
    logger.info("Its outputs are read in this order: %s.", ", ".join(data.card.classes))
    folder = writable_folder(out)
    if is_begun(folder) or (folder / "results.json").exists():
        raise OutputError(
            f"Expected a folder without a run, but {folder} holds one. Choose another (--out)."
        )
    with hold(folder):
        save_config(folder, config)
        model.eval()
        measured = evaluate_parts(
            model, parts, metrics, max_rows=config.max_rows, progress=progress
        )
        save_weights(folder / "model.safetensors", model)
        write_examples(folder / "examples.npz", model, data.test)
        results = {
            **describe_run(config, data, model, loaded, measured),
            "diagnosis": _compare_with_guessing(measured, data),
        }
        write_json(folder / "results.json", results)
        return results


def _refuse_random_weights(config: Config, data: Splits, model: nn.Module) -> None:
    """Build the model with another seed: weights that a factory reads from a file stay equal."""
    other = replace(config, seed=config.seed + 1).build_model(data).state_dict()
    drawn = [name for name, value in model.state_dict().items() if not value.equal(other[name])]
    if drawn:
        raise InvalidSettingError(
            f"Expected {config.model} to give trained weights, but {len(drawn)} are random, "
            f"such as {drawn[0]!r}. Name a file (--weights FILE), or load it in {config.model}."
        )


def _compare_with_guessing(
    measured: Mapping[str, Mapping[str, float]], data: Splits
) -> dict[str, Any]:
    """Whether the model is better than its most frequent class, where accuracy was measured.

    A model that reads a shortcut may guess on test data, where the shortcut is broken. It learned
    something all the same if it is right on validation data, which have the shortcut.
    """
    accuracy = measured["test"].get("accuracy")
    if accuracy is None:
        return {"learned": True, "message": "The model was taken as it is.", "suspects": []}
    share = _most_frequent(data.test)
    message = (
        f"The model was taken as it is: {100 * accuracy:.1f} % right on test data; always the most "
        f"frequent class would be {100 * share:.1f} %."
    )
    held = measured.get("validation", {}).get("accuracy")
    if accuracy > share:
        learned = True
    elif data.val is not None and held is not None and held > _most_frequent(data.val) + CLEARLY:
        learned = True
        message += (
            f" On validation data it is {100 * held:.1f} % right: it learned something that test "
            "data do not have."
        )
    else:
        learned = False
        message += " Check the order of its outputs, and how its inputs are scaled (--mean, --std)."
    return {"learned": learned, "message": message, "suspects": []}


def _most_frequent(data: Dataset) -> float:
    return float(torch.bincount(data.labels).max()) / len(data)
