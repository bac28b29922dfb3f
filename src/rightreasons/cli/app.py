"""The command line: one command calls one public function."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rightreasons import benchmark
from rightreasons.cli.annotate import annotate
from rightreasons.cli.certify import certify
from rightreasons.cli.demo import demo as run_demo
from rightreasons.cli.explain import explain
from rightreasons.cli.listing import catalogue
from rightreasons.cli.options import named, settings_of, with_options_of
from rightreasons.errors import InvalidSettingError, RightReasonsError
from rightreasons.report import write_report
from rightreasons.run.run import Config, evaluate_run, load_config, train_run
from rightreasons.run.selective import selective_run
from rightreasons.training.distributed import is_main_process

__all__ = ["app", "main", "selective_table"]


def selective_table(results: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows for what `selective_run` gives; the worst group only where it is known."""
    grouped = any(line["worst_group"] is not None for line in results["lines"])
    names = ["coverage", "realised", "error", *(["worst_group"] if grouped else [])]
    titles = {"coverage": "target coverage", "worst_group": "worst group's error"}
    rows = [
        [_told(line[name]) for name in names] + [_told(line["threshold"], "answers all")]
        for line in results["lines"]
    ]
    head = [titles.get(name, name) for name in names]
    return [*head, f"threshold ({results['score']})"], rows


def _told(value: float | None, without: str = "-") -> str:
    return without if value is None else f"{value:.4f}"


app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Make classifiers right for the right reasons: train, measure and report.",
)
bench = typer.Typer(no_args_is_help=True, help="The papers' tables, run again.")
app.add_typer(bench, name="bench")
app.command()(annotate)
app.command()(certify)
app.command()(explain)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON in place of a table.")]
DataDir = Annotated[str | None, typer.Option(help="Folder with the data set's files.")]
Out = Annotated[Path, typer.Option(help="Folder to write to.")]
Metrics = Annotated[
    str | None, typer.Option(help="Names with commas; all that suit the data if not given.")
]


def _pairs(what: str, *flags: str) -> Any:
    return typer.Option(*flags, help=f"A setting of {what}, as name=value; repeatable.")


@app.command()
def demo(out: Out = Path("demo"), as_json: AsJson = False) -> None:
    """Train erm and r3 on digits with a tell-tale patch; under a minute."""
    results = run_demo(out)
    _print_results(results, as_json)
    if not as_json:
        typer.echo(f"Open {out / 'report.html'} in a browser.")


@app.command()
@with_options_of(Config, before="resume")
def train(
    ctx: typer.Context,
    out: Out,
    data: Annotated[str | None, typer.Option(help="Name of the data set.")] = None,
    data_dir: DataDir = None,
    set_data: Annotated[list[str] | None, _pairs("the data set")] = None,
    recipe: Annotated[str, typer.Option(help="Name of the recipe.")] = "erm",
    set: Annotated[list[str] | None, _pairs("the recipe")] = None,  # noqa: A002
    model: Annotated[str, typer.Option(help="Name of the model.")] = "mlp",
    set_model: Annotated[list[str] | None, _pairs("the model")] = None,
    strategy: Annotated[str, typer.Option(help="Name of the strategy.")] = "once",
    set_strategy: Annotated[
        list[str] | None, _pairs("the strategy", "--set-strategy", "--strategy-set")
    ] = None,
    metrics: Metrics = None,
    resume: Annotated[
        bool, typer.Option(help="Go on with the run in --out; without --data with its settings.")
    ] = False,
    tensorboard: Annotated[bool, typer.Option(help="Write for TensorBoard too.")] = False,
    as_json: AsJson = False,
    **training: Any,
) -> None:
    """Train a model, measure it on test data and keep it all in a folder."""
    if resume and data is None:
        _refuse_ignored_options(ctx)
        config = load_config(out)
    elif data is None:
        raise InvalidSettingError(
            "Expected --data NAME, but got none. See `rightreasons list data`."
        )
    else:
        config = Config(
            data=data,
            data_dir=data_dir,
            data_settings=settings_of(set_data),
            recipe=recipe,
            settings=settings_of(set),
            model=model,
            model_settings=settings_of(set_model),
            strategy=strategy,
            strategy_settings=settings_of(set_strategy),
            metrics=named(metrics),
            **training,
        )
    results = train_run(config, out, resume=resume, tensorboard=tensorboard)
    _print_results([results], as_json)


@app.command()
def evaluate(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    metrics: Metrics = None,
    max_samples: Annotated[
        int | None, typer.Option(help="Measure so many test samples; all if not given.")
    ] = None,
    data_dir: DataDir = None,
    selective: Annotated[
        bool, typer.Option("--selective", help="Let it abstain: errors at several coverages.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure a finished run again, with the metrics you name; nothing is written."""
    if selective and metrics:
        raise InvalidSettingError("Expected --metrics or --selective, but got both.")
    if selective:
        found = selective_run(run, data_dir=data_dir, max_samples=max_samples, progress=not as_json)
        _print(found, [selective_table(found)], as_json)
        return
    results = evaluate_run(
        run, named(metrics), data_dir=data_dir, max_samples=max_samples, progress=not as_json
    )
    rows = [[name, f"{value:.4f}"] for name, value in results["metrics"]["test"].items()]
    _print(results, [(["metric", "test"], rows)], as_json)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs.")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    as_json: AsJson = False,
) -> None:
    """Put runs side by side on one page that opens in any browser."""
    path = write_report(runs, out)
    _print({"report": str(path)}, [([f"Wrote {path}."], [])], as_json)


@app.command("list")
def list_(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="recipes, strategies, metrics, data, models, explainers, suites; else all."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List what can be asked for by name."""
    found = catalogue(kind)
    tables = [([title, ""], [[*pair] for pair in lines.items()]) for title, lines in found.items()]
    _print(found, tables, as_json)


@bench.command("list")
def bench_list(as_json: AsJson = False) -> None:
    """List the suites."""
    found = benchmark.describe()
    _print(found, [(["suite", ""], [[*pair] for pair in found.items()])], as_json)


@bench.command("run")
def bench_run(
    suite: Annotated[str, typer.Argument(help="Name of the suite.")],
    out: Out,
    data_dir: DataDir = None,
    budget: Annotated[str, typer.Option(help="small or paper.")] = "small",
    variant: Annotated[
        list[str] | None, typer.Option(help="Run this variant only; repeatable.")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Run this method only; repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run what is missing of a suite; start it twice to use two processes.

    Set OMP_NUM_THREADS then, lest each process takes all cores.
    """
    logging.getLogger("rightreasons").setLevel(logging.WARNING)
    benchmark.run_suite(
        suite,
        data_dir=data_dir,
        out=out,
        budget=budget,
        variants=variant or None,
        methods=method or None,
    )
    bench_show(suite, out, budget, as_json)


@bench.command("show")
def bench_show(
    suite: Annotated[str, typer.Argument(help="Name of the suite.")],
    out: Out,
    budget: Annotated[str, typer.Option(help="small or paper.")] = "small",
    as_json: AsJson = False,
    markdown: Annotated[bool, typer.Option(help="Print Markdown in place of text.")] = False,
) -> None:
    """Show a suite's results beside the paper's."""
    comparison = benchmark.show_suite(suite, out, budget=budget)
    if as_json:
        _print(comparison.to_dict(), [], as_json)
    else:
        typer.echo(comparison.to_markdown() if markdown else comparison.to_text())


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr and exit code 2."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    level = logging.INFO if is_main_process() else logging.ERROR
    logging.getLogger("rightreasons").setLevel(level)
    try:
        app()
    except RightReasonsError as error:
        typer.echo(f"Error: {error}", err=True)
        raise SystemExit(2) from None


def _refuse_ignored_options(ctx: typer.Context) -> None:
    kept = ("out", "resume", "as_json", "tensorboard")
    given = [
        f"--{name.replace('_', '-')}"
        for name in ctx.params
        if name not in kept and getattr(ctx.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]
    if given:
        raise InvalidSettingError(
            "Expected --resume without --data to take every setting from the run's config.yaml, "
            f"but got {', '.join(given)}. Leave them out, or give --data and all settings again."
        )


def _print(value: object, tables: list[tuple[list[str], list[list[str]]]], as_json: bool) -> None:
    if not is_main_process():
        return
    if as_json:
        typer.echo(json.dumps(value, indent=2))
        return
    for columns, rows in tables:
        table = Table(*columns, box=None, pad_edge=False)
        for row in rows:
            table.add_row(*row)
        Console().print(table)


def _print_results(results: list[dict[str, Any]], as_json: bool) -> None:
    keys = {
        "accuracy": "accuracy",
        "group_accuracy/average": "average group",
        "group_accuracy/worst": "worst group",
        "swap_accuracy": "masked part swapped",
        "input_gradient_mass": "gradient inside mask",
    }
    measured = [result["metrics"]["test"] for result in results]
    shown = [key for key in keys if any(key in values for values in measured)]
    rows = [
        [result["recipe"], *(f"{values[key]:.3f}" if key in values else "-" for key in shown)]
        for result, values in zip(results, measured, strict=True)
    ]
    _print(results, [(["recipe", *(keys[key] for key in shown)], rows)], as_json)
    for result in results if is_main_process() else []:
        typer.echo(f"{result['recipe']}: {result['diagnosis']['message']}", err=True)
