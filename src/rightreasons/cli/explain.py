"""The command that explains samples of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rightreasons.report.explanation import explain_run

__all__ = ["explain"]


def explain(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    explainer: Annotated[
        str, typer.Option(help="Name of the explainer, see `rightreasons list explainers`.")
    ] = "input_gradient",
    samples: Annotated[int, typer.Option(help="How many, spread over the classes.")] = 16,
    explained: Annotated[
        str, typer.Option(help="Which class is explained: prediction or label.")
    ] = "prediction",
    split: Annotated[str, typer.Option(help="test or validation.")] = "test",
    data_dir: Annotated[str | None, typer.Option(help="Folder with the data set's files.")] = None,
    out: Annotated[
        Path, typer.Option(help="File to write: .html (a page), .png (a picture) or .npz (arrays).")
    ] = Path("explanation.html"),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON in place of a sentence.")
    ] = False,
) -> None:
    """Show what the predictions of a run come from, sample by sample."""
    path = explain_run(
        run,
        out,
        explainer=explainer,
        num_samples=samples,
        explained=explained,  # type: ignore[arg-type]
        split=split,  # type: ignore[arg-type]
        data_dir=data_dir,
    )
    typer.echo(json.dumps({"explanation": str(path)}) if as_json else f"Wrote {path}.")
