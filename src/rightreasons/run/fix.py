"""Repair a model: try methods within a budget, choose by validation data, write its weights."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from rightreasons.certification.certify import certify
from rightreasons.core.checks import check_integer
from rightreasons.core.files import (
    load_weights_into,
    read_json,
    save_tensors,
    writable_folder,
    write_json,
)
from rightreasons.datasets import Dataset, Splits
from rightreasons.errors import CheckpointMismatchError, InvalidSettingError
from rightreasons.metrics import RiskCoverage
from rightreasons.models.weights import weights_like
from rightreasons.run.config import Config, load_config
from rightreasons.run.description import describe_run, read_rows, write_tried
from rightreasons.run.examples import write_examples
from rightreasons.run.methods import find_facts, predict_masks
from rightreasons.run.run import Run
from rightreasons.run.search import Clock, Pool, parse_box, parse_duration, require_optuna
from rightreasons.run.selection import choose, describe_masks, measure_exchange
from rightreasons.run.shortcuts import (
    Shortcut,
    find_growth,
    read_shortcuts,
    with_masks,
)
from rightreasons.run.trials import Trials
from rightreasons.training.distributed import hold
from rightreasons.training.evaluate import evaluate_parts

__all__ = ["fix_run"]

logger = logging.getLogger("rightreasons")

COVERAGES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)


def fix_run(
    start: Config | str | Path,
    out: str | Path,
    *,
    masks: Sequence[str] = (),
    watch: Sequence[str] = (),
    mask_polarity: str | None = None,
    budget: str | float = "30m",
    keep_accuracy: float = 2.0,
    certificate: float | str | None = None,
    num_trials: int = 20,
    data: Splits | None = None,
    pool: Pool | None = None,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Repair a model that reads a shortcut, and write its weights and everything that was tried.

    Methods are chosen by what there is: masks of all or of a few samples, groups, or neither. Each
    is tried once, counterexamples first; Optuna then searches their settings until the budget is
    used. Trials start from the model's own weights; methods called ``_anew`` start from those it
    had before it was trained. Validation data alone decide.

    Started again with the same settings, it goes on where it was stopped or killed. The budget is
    the time of all starts together; another budget or number of trials may be given.

    ::

        model.safetensors      the repaired weights, under the names of the file they came from
        fixed.json             what was chosen and why, the matrix of shortcuts, warnings
        tried.json, tried.csv  every trial
        before/                the model as it was, as a run
        trials/NNN-METHOD/     a run for the chosen trial; weights and log of the others

    Args:
        start: Configuration with model, weights and data, or the folder of a finished run.
        out: Folder to write to.
        masks: Folders of masks of what must not matter, one for each shortcut; the word
            ``colour`` is the colour of whole images. None are the masks of the data.
        watch: The same for shortcuts that are measured and not removed.
        mask_polarity: What is white in masks of folders that do not say it.
        budget: Time for everything, such as ``"30m"``.
        keep_accuracy: By how many points the accuracy that no shortcut explains may fall.
        certificate: Box of a certificate to train for: a distance, or ``"full"`` for the full
            range of values. None trains for no certificate.
        num_trials: Most trials.
        data: The data, if they are loaded already; masks are added to them.
        pool: Where trials run at once, from `rightreasons.benchmark.open_backend`; its workers load
            the data by their name. None runs one trial after the other in this process. Settings
            of as many trials as run at once are drawn together, from the trials before them.
        progress: Whether to show live lines; None does so on a terminal.

    Returns:
        The content of ``fixed.json``.
    """
    seconds, box = parse_duration(budget), parse_box(certificate)
    require_optuna()
    keep = _check_points(keep_accuracy)
    check_integer("num_trials", num_trials)
    config, first_weights = _read_start(start)
    folder = writable_folder(out)
    with hold(folder), Clock(folder / "clock.json", seconds) as clock:
        asked = {
            "masks": list(masks),
            "watch": list(watch),
            "mask_polarity": mask_polarity,
            "keep_accuracy": 100 * keep,
            "certificate": certificate,
        }
        _refuse_other_settings(folder, config, asked)
        config = _with_masks_of(config, masks, mask_polarity)
        plain = data or replace(config, masks=[]).load_data()
        shortcuts = read_shortcuts(config.masks, config.mask_polarity)
        masked = with_masks(plain, shortcuts)
        colour = any(one.kind == "colour" for one in shortcuts)
        facts = find_facts(masked, colour=colour, certificate=certificate is not None)
        if facts.masks == "few" and facts.is_image:
            config, masked, facts = predict_masks(folder, config, masked, facts)
        trials = Trials(
            folder=folder,
            config=config.for_data(masked),
            data=masked,
            facts=facts,
            clock=clock,
            keep=keep,
            epsilon=box,
            progress=progress,
            first_weights=first_weights,
        )
        try:
            trials.search(num_trials, pool)
        except KeyboardInterrupt:
            logger.warning("Stopped. Nothing is lost: the same command goes on with the repair.")
            raise
        watched = read_shortcuts(watch, mask_polarity)
        rows = _rows_to_measure(plain, masked, shortcuts, watched)
        return _finish(trials, asked, rows, clock)


class _Row(NamedTuple):
    """A row of the matrix: a shortcut, whether to remove it, and validation data with its masks."""

    shortcut: Shortcut
    is_removed: bool
    data: Dataset | None
    with_colour: bool = False


def _finish(
    trials: Trials, asked: Mapping[str, Any], matrix: Sequence[_Row], clock: Clock
) -> dict[str, Any]:
    """Choose a trial, measure it on test data, and write what was found."""
    folder, judge, original = trials.folder, trials.judge, trials.original
    rows = read_rows(folder)
    place, reason = choose(rows, original)
    chosen = None if place is None else rows[place]
    runs = {"before": folder / "before"}
    if chosen is not None:
        runs["after"] = folder / chosen["folder"]
    models = {name: _load_model(one, trials.data) for name, one in runs.items()}
    if chosen is not None:
        weights = weights_like(models["after"], trials.config.weights)
        save_tensors(folder / "model.safetensors", weights)
    measured = [_measure_row(models, row) for row in matrix]
    if trials.facts.certificate:
        for name, one in runs.items():
            _certify(models[name], one / "certificate.json", trials)
    fixed = {
        "format": 1,
        "verdict": reason,
        "sentence": _say_result(chosen, reason, trials),
        "chosen": chosen,
        "selected_by": judge.by,
        "selected_what": judge.what,
        "selected_why": judge.why,
        "kept_what": judge.kept,
        "original": original,
        "facts": asdict(trials.facts),
        "asked": dict(asked),
        "shortcuts": measured,
        "warnings": find_growth(measured),
        "num_trials": len(rows),
        "budget": {"seconds": clock.budget, "spent": clock.spent},
        "runs": {name: str(one.relative_to(folder)) for name, one in runs.items()},
        "weights": None if chosen is None else "model.safetensors",
    }
    write_tried(folder, chosen=None if chosen is None else chosen["number"])
    write_json(folder / "fixed.json", fixed)
    return fixed


def _load_model(folder: Path, data: Splits) -> nn.Module:
    """Load a model that was kept; a trial gets its results on test data if it has none."""
    config = load_config(folder)
    model, loaded = config.start_model(data)
    load_weights_into(model, folder / "model.safetensors")
    model = config.build_strategy().deployed(model.eval(), folder)
    if not (folder / "results.json").exists():
        parts = {"test": data.test, "validation": data.val, **data.more_tests}
        metrics = {name: config.build_metrics(name, part) for name, part in parts.items()}
        measured = evaluate_parts(model, parts, metrics, max_rows=config.max_rows)
        write_examples(folder / "examples.npz", model, data.test)
        results = describe_run(config, data, model, loaded, measured)
        write_json(folder / "results.json", {**results, **read_json(folder / "fit.json")})
    _measure_risks(model, folder, data)
    return model


def _measure_risks(model: nn.Module, folder: Path, data: Splits) -> None:
    """Add to the results how errors fall if the model may abstain."""
    results = read_json(folder / "results.json")
    if "risk_coverage" not in results["metrics"]["test"]:
        parts = {"test": data.test, "validation": data.val}
        found = evaluate_parts(
            model, parts, {name: [RiskCoverage(coverages=COVERAGES)] for name in parts}
        )
        for name, values in found.items():
            results["metrics"][name] |= values
        write_json(folder / "results.json", results)


def _certify(model: nn.Module, path: Path, trials: Trials) -> None:
    if not path.exists():
        certificate = certify(model, trials.data.test, epsilon=trials.epsilon)
        settings = {**certificate.settings, "split": "test"}
        replace(certificate, settings=settings).to_json(path)


def _check_points(points: float) -> float:
    """Points of accuracy as a fraction."""
    if isinstance(points, bool) or not 0 <= points <= 100:
        raise InvalidSettingError(
            f"Expected `keep_accuracy` to be points from 0 to 100, but got {points!r}. Set how "
            "many may be lost (--keep-accuracy)."
        )
    return float(points) / 100


def _read_start(start: Config | str | Path) -> tuple[Config, str | None]:
    """The configuration of the model to repair, and the weights that its training began with."""
    if isinstance(start, Config):
        return replace(start, devices=1).with_whole_paths(), None
    run = Run.open(start)
    first = run.config.with_whole_paths().weights
    weights = str((run.folder / "model.safetensors").resolve())
    # Trials share a clock and a journal, which several processes of one training would not.
    config = replace(run.config, weights=weights, select="none", devices=1)
    return config.with_whole_paths(), first


def _refuse_other_settings(folder: Path, config: Config, asked: Mapping[str, Any]) -> None:
    now = {"config": asdict(config), **asked}
    path = folder / "fix.json"
    if not path.exists():
        write_json(path, now)
        return
    before = read_json(path)
    same = json.loads(json.dumps(now))
    other = [name for name in same if before.get(name) != same[name]]
    if other:
        raise CheckpointMismatchError(
            f"Expected to go on with the repair in {folder} as it was begun, but these differ: "
            f"{', '.join(other)}. Use the same settings, or another folder (--out)."
        )


def _with_masks_of(config: Config, masks: Sequence[str], polarity: str | None) -> Config:
    """The same configuration with the masks that were given, or else its own."""
    if not masks:
        return config
    return replace(config, masks=list(masks), mask_polarity=polarity).with_whole_paths()


def _rows_to_measure(
    plain: Splits, masked: Splits, removed: Sequence[Shortcut], watched: Sequence[Shortcut]
) -> list[_Row]:
    rows = [_Row(one, True, with_masks(plain, [one]).val) for one in removed]
    rows += [_Row(one, False, with_masks(plain, [one]).val) for one in watched]
    if not removed and masked.train.has_masks:
        rows.insert(0, _Row(Shortcut("what the masks cover", ""), True, masked.val))
    if len(removed) > 1:  # each alone may cost nothing where the other tells the same
        colour = any(one.kind == "colour" for one in removed)
        rows.append(_Row(Shortcut("all of these at once", ""), True, masked.val, colour))
    return rows


def _measure_row(models: Mapping[str, nn.Module], row: _Row) -> dict[str, Any]:
    shortcut, colour = row.shortcut, row.shortcut.kind == "colour"
    found: dict[str, Any] = {"name": shortcut.name, "kind": shortcut.kind, "fixed": row.is_removed}
    found["masks"] = None if row.data is None or colour else describe_masks(row.data)
    for name in ("before", "after"):
        found[name] = None
        if name in models and row.data is not None and (colour or row.data.has_masks):
            both = {"masks": not colour, "colour": colour or row.with_colour}
            lost = measure_exchange(models[name], row.data, **both)
            found[name] = lost._asdict()
    return found


def _say_result(chosen: Mapping[str, Any] | None, reason: str, trials: Trials) -> str:
    judge, before = trials.judge, f"{100 * trials.original['score']:.1f} %"
    points = f"{100 * trials.keep:g} points"
    if chosen is not None:
        after = f"{100 * chosen['values']['score']:.1f} %"
        return (
            f"Trial {chosen['number']}, {chosen['method']}, takes the {judge.what} from {before} "
            f"to {after}, and keeps {judge.kept} within {points}."
        )
    if reason == "not kept":
        return (
            f"Nothing kept {judge.kept} within {points}, though some trials had a better "
            f"{judge.what}. No weights are written; allow more with --keep-accuracy."
        )
    if reason == "not better":
        return f"No trial was better than the original, {before}, by the {judge.what}."
    return "No trial ended within the budget. Give more time with --budget."
