"""The commands that search for shortcuts and turn findings into masks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typing_extensions import override

from rightreasons.audit import Audit, accept_findings
from rightreasons.audit import audit as search_shortcuts
from rightreasons.audit.findings import Finding
from rightreasons.cli.options import (
    AsJson,
    DataDir,
    Mean,
    SetData,
    SetModel,
    Std,
    Weights,
    print_result,
    read_model_settings,
    read_settings,
    refuse_options,
)
from rightreasons.core.checks import check_path
from rightreasons.core.files import read_json, writable_folder, write_json
from rightreasons.datasets import Splits
from rightreasons.datasets.images.table import read_table
from rightreasons.errors import InvalidSettingError
from rightreasons.models.own import is_own
from rightreasons.report.audit_page import write_audit_page
from rightreasons.run.config import Config
from rightreasons.run.description import describe_loading
from rightreasons.run.run import Run

__all__ = ["accept", "audit", "search"]

SOURCE = "source.json"
"""File of an audit that says which data it looked at."""
DEFAULT = "search"


class _SearchByDefault(TyperGroup):
    """Commands of which one may be left out: ``audit RUN`` is ``audit search RUN``."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args = [DEFAULT, *args]
        return list(super().parse_args(ctx, args))


audit = typer.Typer(
    cls=_SearchByDefault,
    no_args_is_help=True,
    help="Search for shortcuts, and accept findings as masks.",
)


@audit.command(DEFAULT)
def search(
    ctx: typer.Context,
    run: Annotated[
        Path | None,
        typer.Argument(help="Folder of a finished run; without it, name --data.", metavar="[RUN]"),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Name of the model, or your own as path.py:factory; none audits data."),
    ] = None,
    weights: Weights = None,
    data: Annotated[str | None, typer.Option(help="Name of the data set.")] = None,
    data_dir: DataDir = None,
    set_data: SetData = None,
    set_model: SetModel = None,
    mean: Mean = None,
    std: Std = None,
    split: Annotated[
        str, typer.Option(help="Part of the data: train, validation or test.")
    ] = "train",
    columns: Annotated[
        Path | None,
        typer.Option(help="Table of further columns, csv: a row for each sample, in its order."),
    ] = None,
    max_samples: Annotated[int, typer.Option(help="Most samples to audit.")] = 2000,
    seed: Annotated[int, typer.Option(help="Random seed for the data and the search.")] = 0,
    out: Annotated[
        Path, typer.Option(help="Folder to write to.", parser=check_path, metavar="PATH")
    ] = Path("audit"),
    as_json: AsJson = False,
) -> None:
    """Search for shortcuts: what tells the label, where the model looks, what planting changes.

    The word `search` may be left out: `rightreasons audit RUN`.
    """
    if (run is None) == (data is None):
        got = "neither" if run is None else "both"
        raise InvalidSettingError(
            f"Expected the folder of a run, or --data NAME, but got {got}. Give one of the two."
        )
    source: dict[str, Any] = {"run": None if run is None else str(run.resolve())}
    if run is not None:
        refuse_options(
            ctx,
            ("model", "weights", "set_data", "set_model", "mean", "std"),
            expected=f"the run in {run} to say its data and model",
            remedy="Leave them out, or name --data in place of the run.",
        )
        opened = Run.open(run, data_dir)
        net, splits = opened.model, opened.data
        source["data_dir"] = data_dir and str(Path(data_dir).expanduser().resolve())
    else:
        config = Config(
            data=str(data),
            data_dir=data_dir,
            data_settings=read_settings(set_data),
            model=model or "auto",
            model_settings=read_model_settings(set_model, mean, std),
            weights=weights,
            seed=seed,
        ).with_whole_paths()
        _refuse_random_weights(model, weights)
        splits = config.load_data()
        net = None
        if model is not None:
            net, loaded = config.start_model(splits)
            describe_loading(loaded)
            net.eval()
        source |= {
            "data": config.data,
            "data_dir": config.data_dir,
            "data_settings": config.data_settings,
            "seed": seed,
        }
    folder = writable_folder(out)
    part = _part(splits, split)
    table = None if columns is None else _read_columns(columns)
    result = search_shortcuts(
        net, part, columns=table, max_samples=max_samples, seed=seed, progress=not as_json
    )
    result.save(folder)
    write_json(folder / SOURCE, source)
    page = write_audit_page(folder)
    print_result(read_json(folder / "audit.json"), [_table(result)], as_json)
    if not as_json:
        typer.echo(f"Open {page} in a browser.")


@audit.command()
def accept(
    folder: Annotated[
        Path, typer.Argument(help="Folder of an audit.", parser=check_path, metavar="AUDIT")
    ],
    numbers: Annotated[list[int], typer.Argument(help="Numbers of findings.")],
    out: Annotated[
        Path, typer.Option(help="Folder to write to.", parser=check_path, metavar="PATH")
    ] = Path("masks"),
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Write masks for every sample in which a finding is present, for `--masks`."""
    result = Audit.load(folder)
    splits = _load_source(folder, data_dir)
    told = accept_findings(result, numbers, splits, out)
    rows = [
        [name, f"{values['samples']:.0f}", f"{100 * values['with_mask']:.1f} %"]
        for name, values in told.items()
    ]
    value = {"masks": str(out), "parts": told}
    print_result(value, [(["part", "samples", "with a mask"], rows)], as_json)
    if not as_json:
        typer.echo(f"Wrote {out}.")


def _refuse_random_weights(model: str | None, weights: str | None) -> None:
    if model is None and weights is not None:
        raise InvalidSettingError(
            "Expected --model with --weights, but got weights alone. Name the model."
        )
    if model is not None and weights is None and not is_own(model):
        raise InvalidSettingError(
            f"Expected --weights for the model {model!r}, but got none: its weights would be "
            "random. Name a file, or leave --model out to audit the data alone."
        )


def _part(splits: Splits, split: str) -> Any:
    parts = {"train": splits.train, "validation": splits.val, "test": splits.test}
    if parts.get(split) is None:
        known = ", ".join(name for name, part in parts.items() if part is not None)
        raise InvalidSettingError(f"Expected `--split` to be one of {known}, but got {split!r}.")
    return parts[split]


def _read_columns(path: Path) -> dict[str, list[str]]:
    header, rows = read_table(path)
    return {name: [cells[place] for _, cells in rows] for place, name in enumerate(header) if name}


def _load_source(folder: Path, data_dir: str | None) -> Splits:
    """Load the data that an audit looked at."""
    source = read_json(folder / SOURCE)
    if source.get("run"):
        return Run.open(source["run"], data_dir or source.get("data_dir")).data
    return Config(
        data=source["data"],
        data_dir=data_dir or source["data_dir"],
        data_settings=source["data_settings"],
        seed=source["seed"],
    ).load_data()


def _table(result: Audit) -> tuple[list[str], list[list[str]]]:
    rows = [_row(number, one) for number, one in enumerate(result.findings, 1)]
    if not rows:
        rows = [["–", "nothing is above the thresholds", "", "", ""]]
    return ["", "finding", "verdict", "planted effect", "tells the label"], rows


def _row(number: int, finding: Finding) -> list[str]:
    effect = finding.decisive
    words = "–" if effect is None else f"{effect.value:.2f} ({effect.low:.2f} to {effect.high:.2f})"
    tells = finding.tells_label
    return [
        str(number),
        finding.name,
        finding.verdict,
        words,
        "–" if tells != tells else f"{tells:.2f}",
    ]
