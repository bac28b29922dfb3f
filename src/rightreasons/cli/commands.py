"""The command line: one command calls one public function."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from rightreasons.cli.adopt import adopt
from rightreasons.cli.annotate import annotate
from rightreasons.cli.audit import audit
from rightreasons.cli.bench import bench
from rightreasons.cli.certify import certify
from rightreasons.cli.data import data as data_commands
from rightreasons.cli.demo import demo as run_demo
from rightreasons.cli.explain import explain
from rightreasons.cli.fix import fix
from rightreasons.cli.listing import print_names
from rightreasons.cli.options import (
    PAIR_HELP,
    AsJson,
    DataDir,
    Groups,
    MaskPolarity,
    Masks,
    Mean,
    Metrics,
    ModelName,
    Out,
    RunFolder,
    SetData,
    SetMetric,
    SetModel,
    Std,
    Weights,
    print_result,
    read_data_settings,
    read_metric_settings,
    read_model_settings,
    read_settings,
    refuse_options,
    selective_table,
    split_names,
    with_options_of,
)
from rightreasons.cli.report import report
from rightreasons.errors import InvalidSettingError, RightReasonsError
from rightreasons.run.config import Config, load_config
from rightreasons.run.run import evaluate_run, train_run
from rightreasons.run.selective import selective_run
from rightreasons.training.distributed import is_main_process

__all__ = ["app", "main", "selective_table"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(audit, name="audit")
app.add_typer(bench, name="bench")
app.add_typer(data_commands, name="data")
app.command()(adopt)
app.command()(annotate)
app.command()(certify)
app.command()(explain)
app.command()(fix)
app.command("list")(print_names)
app.command()(report)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"rightreasons {metadata.version('rightreasons')}")
        raise typer.Exit()


@app.callback()
def describe(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Make classifiers right for the right reasons: train, measure and report."""
    del version


@app.command()
def demo(out: Out = Path("demo"), as_json: AsJson = False) -> None:
    """Train erm and r3 on digits with a patch that reveals the class; takes under a minute."""
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
    set_data: SetData = None,
    mask_polarity: MaskPolarity = None,
    groups: Groups = None,
    masks: Masks = None,
    recipe: Annotated[str, typer.Option(help="Name of the recipe.")] = "erm",
    set: Annotated[  # noqa: A002
        list[str] | None, typer.Option(help=PAIR_HELP.format("the recipe"))
    ] = None,
    model: ModelName = "auto",
    set_model: SetModel = None,
    weights: Weights = None,
    mean: Mean = None,
    std: Std = None,
    strategy: Annotated[str, typer.Option(help="Name of the strategy.")] = "once",
    set_strategy: Annotated[
        list[str] | None,
        typer.Option("--set-strategy", "--strategy-set", help=PAIR_HELP.format("the strategy")),
    ] = None,
    metrics: Metrics = None,
    set_metric: SetMetric = None,
    resume: Annotated[
        bool, typer.Option(help="Go on with the run in --out; without --data, use its settings.")
    ] = False,
    tensorboard: Annotated[bool, typer.Option(help="Write for TensorBoard too.")] = False,
    as_json: AsJson = False,
    **training: Any,
) -> None:
    """Train a model, measure it on test data and write everything to a folder."""
    if resume and data is None:
        refuse_options(
            ctx,
            ctx.params.keys() - {"out", "resume", "as_json", "tensorboard", "max_rows"},
            expected="--resume without --data to take every setting from the run's config.yaml",
            remedy="Leave them out, or give --data and all settings again.",
        )
        config = load_config(out)
        if training["max_rows"] is not None:  # how large passes are is the machine's business
            config = replace(config, max_rows=training["max_rows"])
    elif data is None:
        raise InvalidSettingError(
            "Expected --data NAME, but got none. `rightreasons list data` lists the names."
        )
    else:
        config = Config(
            data=data,
            data_dir=data_dir,
            data_settings=read_data_settings(set_data, None if masks else mask_polarity, groups),
            masks=masks or [],
            mask_polarity=mask_polarity if masks else None,
            recipe=recipe,
            settings=read_settings(set),
            model=model,
            model_settings=read_model_settings(set_model, mean, std),
            weights=weights,
            strategy=strategy,
            strategy_settings=read_settings(set_strategy),
            metrics=split_names(metrics),
            metric_settings=read_metric_settings(set_metric),
            **training,
        )
    results = train_run(config, out, resume=resume, tensorboard=tensorboard)
    _print_results([results], as_json)


@app.command()
def evaluate(
    run: RunFolder,
    metrics: Metrics = None,
    set_metric: SetMetric = None,
    max_samples: Annotated[
        int | None, typer.Option(help="Number of test samples to measure; all if not given.")
    ] = None,
    max_rows: Annotated[
        int | None,
        typer.Option(min=1, help="Most rows in a pass; as many as memory allows if not given."),
    ] = None,
    data_dir: DataDir = None,
    selective: Annotated[
        bool,
        typer.Option("--selective", help="Let the model abstain: errors at several coverages."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure a finished run again, with metrics of your choice; nothing is written."""
    if selective and metrics:
        raise InvalidSettingError(
            "Expected --metrics or --selective, but got both. Leave one of them out."
        )
    if selective:
        risks = selective_run(run, data_dir=data_dir, max_samples=max_samples, progress=not as_json)
        print_result(risks, [selective_table(risks)], as_json)
        return
    results = evaluate_run(
        run,
        split_names(metrics),
        metric_settings=read_metric_settings(set_metric),
        data_dir=data_dir,
        max_samples=max_samples,
        max_rows=max_rows,
        progress=not as_json,
    )
    rows = [[name, f"{value:.4f}"] for name, value in results["metrics"]["test"].items()]
    print_result(results, [(["metric", "test"], rows)], as_json)


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr and exit code 2."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    try:
        level = logging.INFO if is_main_process() else logging.ERROR
        logging.getLogger("rightreasons").setLevel(level)
        logging.getLogger("rightreasons.diagnosis").setLevel(logging.ERROR)  # printed at the end
        _refuse_models(sys.argv[1:])
        app()
    except RightReasonsError as error:
        told = str(error)
    except OSError as error:  # a path that is too long, a folder that may not be read
        told = f"Expected a path that can be used, but got: {str(error)[:400]}. Name another."
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
            raise
        told = "Expected data and a model that fit into memory, but they do not. Make them smaller."
    else:
        return
    typer.echo(f"Error: {told}", err=True)
    raise SystemExit(2)


def _refuse_models(arguments: list[str]) -> None:
    """Say how commands that take a run take a model: it is made a run first."""
    command = arguments[0] if arguments else ""
    named = {argument.partition("=")[0] for argument in arguments}
    if command in ("evaluate", "explain", "certify") and named & {"--model", "--weights"}:
        raise InvalidSettingError(
            f"Expected the folder of a run, which {command} takes, but got a model. Make a run of "
            "it: rightreasons adopt --model net.py:factory --weights FILE --data DATA --out RUN. "
            f"Then: rightreasons {command} RUN."
        )


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
    print_result(results, [(["recipe", *(keys[key] for key in shown)], rows)], as_json)
    for result in results if is_main_process() else []:
        typer.echo(f"{result['recipe']}: {result['diagnosis']['message']}", err=True)
