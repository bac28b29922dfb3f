"""The command that repairs a model within a budget."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from rightreasons.benchmark.backends import Backend, open_backend
from rightreasons.cli.options import (
    AsJson,
    DataDir,
    Mean,
    Metrics,
    ModelName,
    Out,
    SetData,
    SetModel,
    Std,
    Weights,
    print_result,
    read_model_settings,
    read_settings,
    refuse_options,
    split_names,
)
from rightreasons.core.checks import check_path
from rightreasons.datasets.registry import DATASETS
from rightreasons.errors import InvalidSettingError
from rightreasons.report import write_report
from rightreasons.run.config import Config
from rightreasons.run.fix import fix_run

__all__ = ["fix"]


OF_A_RUN = (
    *("data_dir", "set_data", "model", "set_model", "mean", "std", "weights"),
    *("metrics", "lr", "seed"),
)
"""Options that say what the run says, where a run is repaired."""


def fix(
    ctx: typer.Context,
    out: Out,
    run: Annotated[
        Path | None,
        typer.Argument(
            help="Folder of a finished run, in place of --data, --model and --weights.",
            parser=check_path,
            metavar="[RUN]",
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Name of the data set, or a folder with a data.csv.")
    ] = None,
    model: ModelName = "auto",
    weights: Weights = None,
    data_dir: DataDir = None,
    set_data: SetData = None,
    set_model: SetModel = None,
    mean: Mean = None,
    std: Std = None,
    masks: Annotated[
        list[str] | None,
        typer.Option(help="Folder of masks of what must not matter, or the word colour; repeat."),
    ] = None,
    watch: Annotated[
        list[str] | None,
        typer.Option(help="The same for a shortcut to measure and not to remove; repeatable."),
    ] = None,
    mask_polarity: Annotated[
        str | None, typer.Option(help="Meaning of white in mask files: irrelevant or relevant.")
    ] = None,
    budget: Annotated[str, typer.Option(help="Time for everything, such as 30m or 1h30m.")] = "30m",
    keep_accuracy: Annotated[
        float,
        typer.Option(help="Points by which accuracy that no shortcut explains may fall."),
    ] = 2.0,
    certificate: Annotated[
        str | None,
        typer.Option(help="Train for a certificate: how far masked features may move, or full."),
    ] = None,
    trials: Annotated[int, typer.Option(help="Most trials.")] = 20,
    backend: Annotated[
        str | None,
        typer.Option(
            help="Where trials run: process (several of this machine) or ray (a cluster)."
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Most trials at once; if not given one, or all that fit with --backend."
        ),
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Address of a Ray cluster; auto is that of this machine.")
    ] = None,
    cpus: Annotated[
        int | None, typer.Option(min=1, help="Cores of each trial, which has as many threads.")
    ] = None,
    gpus: Annotated[
        float, typer.Option(min=0, help="GPUs of each trial on Ray; a fraction shares one.")
    ] = 0.0,
    metrics: Metrics = None,
    audit: Annotated[
        Path | None, typer.Option(help="Folder of an audit whose findings the report shows.")
    ] = None,
    lr: Annotated[float, typer.Option(help="Learning rate of the first trials.")] = 1e-3,
    seed: Annotated[int, typer.Option(help="Random seed for data and search.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Repair a model: try methods within a budget, keep the best, write its weights and a report.

    Validation data alone decide. The same command goes on with a repair that was stopped.
    """
    if (run is None) == (data is None):
        raise InvalidSettingError(
            "Expected the folder of a run, or --data with --model and --weights, but got "
            f"{'neither' if run is None else 'both'}. Give one of the two."
        )
    start: Config | Path
    if run is not None:
        refuse_options(
            ctx,
            OF_A_RUN,
            expected=f"the run in {run} to say its data, model and settings",
            remedy="Leave them out, or name --data, --model and --weights in place of the run.",
        )
        start = run
    else:
        name = str(data)
        if name not in DATASETS and Path(name).is_dir():
            name, data_dir = "folder", name
        start = Config(
            data=name,
            data_dir=data_dir,
            data_settings=read_settings(set_data),
            model=model,
            model_settings=read_model_settings(set_model, mean, std),
            weights=weights,
            metrics=split_names(metrics),
            lr=lr,
            seed=seed,
        )
    place: dict[str, Any] = {"workers": workers, "address": address, "cpus": cpus, "gpus": gpus}
    with _open_pool(backend, place) as pool:
        fixed = fix_run(
            start,
            out,
            masks=masks or [],
            watch=watch or [],
            mask_polarity=mask_polarity,
            budget=budget,
            keep_accuracy=keep_accuracy,
            certificate=certificate,
            num_trials=trials,
            pool=pool,
            progress=False if as_json else None,
        )
    page = write_report([out], out / "report.html", audit=audit)
    print_result({**fixed, "report": str(page)}, [_matrix(fixed)], as_json)
    if as_json:
        return
    typer.echo(fixed["sentence"])
    for warning in fixed["warnings"]:
        typer.echo(f"Warning: {warning}")
    if fixed["weights"]:
        typer.echo(f"Wrote {out / fixed['weights']}, {out / 'tried.csv'} and {page}.")
    else:
        typer.echo(f"Wrote {out / 'tried.csv'} and {page}.")


@contextmanager
def _open_pool(backend: str | None, place: dict[str, Any]) -> Iterator[Backend | None]:
    """Open the workers that were asked for; one trial at a time needs none."""
    if backend is None and any(place.values()):
        backend = "ray" if place["address"] or place["gpus"] else "process"
    if backend is None or (backend == "process" and place["workers"] == 1):
        yield None
        return
    pool = open_backend(backend, **place)
    try:
        yield pool
    finally:
        pool.close()


def _matrix(fixed: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [row["name"], "yes" if row["fixed"] else "no", _lost(row["before"]), _lost(row["after"])]
        for row in fixed["shortcuts"]
    ]
    return ["accuracy lost if exchanged", "removed", "before", "after"], rows


def _lost(lost: dict[str, float] | None) -> str:
    if lost is None:
        return "-"
    low, high = 100 * lost["low"], 100 * lost["high"]
    return f"{100 * lost['cost']:.1f} points ({low:.1f} to {high:.1f})"
