"""The commands that run the papers' tables again and show them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from rightreasons import benchmark
from rightreasons.benchmark.store import RESULTS_FILE
from rightreasons.cli.options import AsJson, DataDir, Out, print_result
from rightreasons.core.checks import check_path

__all__ = ["bench"]

SuiteName = Annotated[str, typer.Argument(help="Name of the suite.")]
Budget = Annotated[str, typer.Option(help="Budget: small or paper.")]

bench = typer.Typer(no_args_is_help=True, help="Run the tables of the papers again.")


@bench.command("list")
def list_suites(as_json: AsJson = False) -> None:
    """List the suites."""
    suites = benchmark.describe()
    print_result(suites, [(["suite", ""], [[*pair] for pair in suites.items()])], as_json)


@bench.command("run")
def run_suite(
    suite: SuiteName,
    out: Out,
    data_dir: DataDir = None,
    budget: Budget = "small",
    variant: Annotated[
        list[str] | None,
        typer.Option(help="Run this variant only; * stands for anything; repeatable."),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="Run this method only; * stands for anything; repeatable."),
    ] = None,
    seed: Annotated[
        list[int] | None,
        typer.Option(help="Run this seed only, where no settings are chosen; repeatable."),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(help="Where cells run: process (several of this machine) or ray (a cluster)."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Most cells at once; if not given one, or all that fit with --backend."
        ),
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Address of a Ray cluster; auto is that of this machine.")
    ] = None,
    cpus: Annotated[
        int | None, typer.Option(min=1, help="Cores of each cell, which has as many threads.")
    ] = None,
    gpus: Annotated[
        float, typer.Option(min=0, help="GPUs of each cell on Ray; a fraction shares one.")
    ] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Run what is missing of a suite, here, in several processes or on a cluster.

    The same command goes on after a stop. Started twice, its two processes share the cells.
    """
    logging.getLogger("rightreasons").setLevel(logging.WARNING)
    failed: list[tuple[str, str]] = []
    benchmark.run_suite(
        suite,
        data_dir=data_dir,
        out=out,
        budget=budget,
        variants=variant or None,
        methods=method or None,
        seeds=seed or None,
        backend=backend,
        workers=workers,
        address=address,
        cpus=cpus,
        gpus=gpus,
        on_failure=lambda name, reason: failed.append((name, reason)),
    )
    if (out / RESULTS_FILE).exists() or not failed:
        show_suite(suite, out, budget, as_json)
    for name, reason in failed:
        typer.echo(f"Failed: {name}: {reason}", err=True)
    if failed:
        typer.echo("The same command tries these cells again.", err=True)
        raise typer.Exit(1)


@bench.command("merge")
def merge_stores(
    stores: Annotated[
        list[Path],
        typer.Argument(help="Folders of `bench run --out`.", parser=check_path, metavar="STORE..."),
    ],
    out: Out,
    as_json: AsJson = False,
) -> None:
    """Join the results of several machines in one folder; rows that disagree are refused."""
    added = benchmark.merge_stores(stores, out)
    counts = {"new": len(added), "rows": len(benchmark.read_rows(out))}
    print_result(counts, [(["new rows", "all rows"], [[str(n) for n in counts.values()]])], as_json)


@bench.command("show")
def show_suite(
    suite: SuiteName,
    out: Out,
    budget: Budget = "small",
    as_json: AsJson = False,
    markdown: Annotated[bool, typer.Option(help="Print Markdown in place of text.")] = False,
) -> None:
    """Show a suite's results beside the paper's."""
    comparison = benchmark.show_suite(suite, out, budget=budget)
    if as_json:
        print_result(comparison.to_dict(), [], as_json)
    else:
        typer.echo(comparison.to_markdown() if markdown else comparison.to_text())
