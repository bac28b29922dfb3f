"""The command that writes the page about runs, with a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rightreasons.cli.options import AsJson, print_result
from rightreasons.core.checks import check_path
from rightreasons.report import judge_runs, write_report
from rightreasons.training.distributed import is_main_process

__all__ = ["report"]


def report(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of finished runs, or the folder of a repair.")
    ],
    out: Annotated[
        Path, typer.Option(help="The page to write.", parser=check_path, metavar="PATH")
    ] = Path("report.html"),
    audit: Annotated[
        Path | None, typer.Option(help="Folder of an audit whose findings the page shows.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Exit with 0 only if the verdict is good, 3 if it is mixed or unclear, 4 if bad.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Put runs side by side on one page that opens in any browser, with a verdict."""
    page, judged = write_report(runs, out, audit=audit), judge_runs(runs)
    print_result({"report": str(page), **judged}, [([f"Wrote {page}."], [])], as_json)
    for section in judged["data"] if is_main_process() and not as_json else []:
        typer.echo(f"{section['data']}: {section['badge']}. {section['headline']}")
        for step in section["next"]:
            typer.echo(f"- {step}")
    if check and judged["exit_code"]:
        raise typer.Exit(judged["exit_code"])
