"""The command that explains samples of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rightreasons.cli.options import AsJson, DataDir, RunFolder
from rightreasons.core.checks import check_path
from rightreasons.report.explanation import explain_run

__all__ = ["explain"]


def explain(
    run: RunFolder,
    explainer: Annotated[
        str | None,
        typer.Option(
            help="Name of the explainer; `rightreasons list explainers` lists them. Default: "
            "input_gradient; input_times_gradient for texts."
        ),
    ] = None,
    samples: Annotated[int, typer.Option(help="Number of samples, spread over the classes.")] = 16,
    explained: Annotated[
        str, typer.Option(help="Class to explain: prediction or label.")
    ] = "prediction",
    split: Annotated[str, typer.Option(help="Part of the data: test or validation.")] = "test",
    data_dir: DataDir = None,
    out: Annotated[
        Path,
        typer.Option(
            help="File to write: .html (a page), .png (a picture) or .npz (arrays).",
            parser=check_path,
            metavar="PATH",
        ),
    ] = Path("explanation.html"),
    as_json: AsJson = False,
) -> None:
    """Show which features the predictions of a run depend on, sample by sample."""
    written = explain_run(
        run,
        out,
        explainer=explainer,
        num_samples=samples,
        explained=explained,  # type: ignore[arg-type]
        split=split,  # type: ignore[arg-type]
        data_dir=data_dir,
    )
    typer.echo(json.dumps({"explanation": str(written)}) if as_json else f"Wrote {written}.")
