"""The commands that run the papers' tables again and show them."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from rightreasons import benchmark
from rightreasons.cli.options import AsJson, DataDir, Out, print_result

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
    as_json: AsJson = False,
) -> None:
    """Run what is missing of a suite; start it twice to use two processes.

    With several processes set OMP_NUM_THREADS, so that they share the cores.
    """
    logging.getLogger("rightreasons").setLevel(logging.WARNING)
    benchmark.run_suite(
        suite,
        data_dir=data_dir,
        out=out,
        budget=budget,
        variants=variant or None,
        methods=method or None,
        seeds=seed or None,
    )
    show_suite(suite, out, budget, as_json)


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
