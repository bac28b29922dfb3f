"""What the commands share: options, settings as people write them, and printing."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rightreasons.core.checks import check_path
from rightreasons.core.files import Unreadable
from rightreasons.errors import InvalidSettingError
from rightreasons.run.config import parse_yaml
from rightreasons.training.distributed import is_main_process

__all__ = [
    "AsJson",
    "DataDir",
    "Groups",
    "MaskPolarity",
    "Masks",
    "Mean",
    "Metrics",
    "ModelName",
    "Out",
    "PAIR_HELP",
    "RunFolder",
    "SetData",
    "SetMetric",
    "SetModel",
    "Std",
    "Weights",
    "print_result",
    "read_data_settings",
    "read_metric_settings",
    "read_model_settings",
    "read_settings",
    "refuse_options",
    "selective_table",
    "split_names",
    "with_options_of",
]

Command = TypeVar("Command", bound=Callable[..., None])

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON in place of text.")]
DataDir = Annotated[str | None, typer.Option(help="Folder with the data set's files.")]
Groups = Annotated[
    str | None,
    typer.Option(help="Columns of the table that make the groups, with commas: label,site."),
]
MaskPolarity = Annotated[
    str | None, typer.Option(help="Meaning of white in mask files: irrelevant or relevant.")
]
Masks = Annotated[
    list[str] | None,
    typer.Option(
        help="Masks in place of the data's: a folder, or the file of `annotate --rest`; repeat."
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(help="Names of metrics, with commas; all that suit the data if not given."),
]
Out = Annotated[Path, typer.Option(help="Folder to write to.", parser=check_path, metavar="PATH")]
RunFolder = Annotated[
    Path, typer.Argument(help="Folder of a finished run.", parser=check_path, metavar="RUN")
]
PAIR_HELP = "A setting of {}, as name=value; repeatable."
SetMetric = Annotated[
    list[str] | None,
    typer.Option(help="A setting of a metric, as metric.name=value; repeatable."),
]
SetData = Annotated[list[str] | None, typer.Option(help=PAIR_HELP.format("the data set"))]
SetModel = Annotated[list[str] | None, typer.Option(help=PAIR_HELP.format("the model"))]
ModelName = Annotated[
    str,
    typer.Option(
        help="Name of the model; your own as path.py:factory or package.module:name. "
        "auto suits the data's shape."
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(help="File with the weights to begin with: safetensors, or a state dict."),
]
Mean = Annotated[
    str | None,
    typer.Option(help="Mean of each channel, with commas, if the model takes scaled inputs."),
]
Std = Annotated[str | None, typer.Option(help="Standard deviation of each channel, with commas.")]


def with_options_of(settings: type, *, before: str) -> Callable[[Command], Command]:
    """Give a command an option for each field of a dataclass that has a help text.

    Args:
        settings: A dataclass whose fields are made by `setting`.
        before: The command's parameter that follows the new options in the help.

    Returns:
        A decorator for a command that takes the options as ``**`` keywords.
    """
    hints = get_type_hints(settings)
    options = [
        inspect.Parameter(
            entry.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=entry.default,
            # Names of optimizers and the like are words on the command line.
            annotation=Annotated[
                str if isinstance(entry.default, str) else hints[entry.name],
                typer.Option(help=entry.metadata["help"]),
            ],
        )
        for entry in fields(settings)
        if "help" in entry.metadata
    ]

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        *others, _ = signature.parameters.values()  # the last one is the ** keywords
        place = [parameter.name for parameter in others].index(before)
        others[place:place] = options
        command.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return command

    return decorate


def read_settings(pairs: Sequence[str] | None) -> dict[str, Any]:
    """Read settings from ``name=value`` pairs.

    Example:
        >>> read_settings(["step-size=1e-4", "hidden=[8, 8]"])
        {'step_size': 0.0001, 'hidden': [8, 8]}
    """
    settings = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InvalidSettingError(f"Expected a setting as name=value, but got {pair!r}.")
        settings[name.replace("-", "_")] = _value(pair, value)
    return settings


def read_data_settings(
    pairs: Sequence[str] | None, mask_polarity: str | None, groups: str | None
) -> dict[str, Any]:
    """Read settings of a data set, with those that have options of their own.

    Example:
        >>> read_data_settings(["size=64"], "irrelevant", None)
        {'size': 64, 'mask_polarity': 'irrelevant'}
    """
    settings = read_settings(pairs)
    for name, value in (("mask_polarity", mask_polarity), ("groups", groups)):
        if value is not None and settings.setdefault(name, value) != value:
            raise InvalidSettingError(
                f"Expected --{name.replace('_', '-')} or --set-data {name}=..., but got both. "
                "Leave one out."
            )
    return settings


def read_model_settings(
    pairs: Sequence[str] | None, mean: str | None, std: str | None
) -> dict[str, Any]:
    """Read settings of a model, with the scale of its inputs.

    Example:
        >>> read_model_settings(["hidden=[8]"], "0.5", "0.25")
        {'hidden': [8], 'mean': [0.5], 'deviation': [0.25]}
    """
    settings = read_settings(pairs)
    for name, option, text in (("mean", "--mean", mean), ("deviation", "--std", std)):
        if text is None:
            continue
        if name in settings:
            raise InvalidSettingError(
                f"Expected {option} or --set-model {name}=..., but got both. Leave one out."
            )
        try:
            settings[name] = [float(part) for part in text.split(",")]
        except ValueError as error:
            raise InvalidSettingError(
                f"Expected {option} to be numbers with commas, such as 0.5,0.5,0.5, but got "
                f"{text!r}."
            ) from error
    return settings


def read_metric_settings(pairs: Sequence[str] | None) -> dict[str, dict[str, Any]]:
    """Read settings of metrics from ``metric.name=value`` pairs.

    Example:
        >>> read_metric_settings(["swap-accuracy.source=pasted", "rps.num_draws=3"])
        {'swap_accuracy': {'source': 'pasted'}, 'rps': {'num_draws': 3}}
    """
    settings: dict[str, dict[str, Any]] = {}
    for pair in pairs or []:
        metric, dot, rest = pair.partition(".")
        if not dot or not metric or "=" in metric:
            raise InvalidSettingError(
                f"Expected a setting as metric.name=value, such as swap_accuracy.num_draws=3, but "
                f"got {pair[:80]!r}."
            )
        settings.setdefault(metric.replace("-", "_"), {}).update(read_settings([rest]))
    return settings


def refuse_options(
    ctx: typer.Context, names: Collection[str], *, expected: str, remedy: str
) -> None:
    """Refuse options that the command line gives and that the command would ignore.

    Args:
        ctx: The command's context.
        names: Parameters of the command that it does not read in this case.
        expected: Where it takes these settings from: "the run to say its data".
        remedy: What to do in place of it.
    """
    given = [
        f"--{name.replace('_', '-')}"
        for name in sorted(names)
        if getattr(ctx.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]
    if given:
        raise InvalidSettingError(f"Expected {expected}, but got {', '.join(given)}. {remedy}")


def split_names(text: str | None) -> list[str] | None:
    """Split names at commas; None if there are none.

    Example:
        >>> split_names("accuracy, rps")
        ['accuracy', 'rps']
    """
    if not text:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InvalidSettingError(
            f"Expected names with commas between them, such as accuracy,rps, but got {text!r}."
        )
    return names


def print_result(
    value: object, tables: list[tuple[list[str], list[list[str]]]], as_json: bool
) -> None:
    """Print a command's result, as JSON or as tables of columns and rows; only one process does."""
    if not is_main_process():
        return
    if as_json:
        typer.echo(json.dumps(value, indent=2))
        return
    for columns, rows in tables:
        # A name such as [b] is a name, not markup.
        table = Table(*map(escape, columns), box=None, pad_edge=False)
        for row in rows:
            table.add_row(*map(escape, row))
        Console().print(table)


def selective_table(results: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows for the results of `selective_run`; the worst group only if it is known."""
    grouped = any(line["worst_group"] is not None for line in results["lines"])
    names = ["coverage", "realised", "error", *(["worst_group"] if grouped else [])]
    titles = {"coverage": "target coverage", "worst_group": "worst group's error"}
    is_odds = results["score"] != "logit"  # log-odds, which read better as a probability
    rows = []
    for line in results["lines"]:
        threshold = line["threshold"]
        if is_odds and threshold is not None:
            threshold = 0.5 * (1 + math.tanh(threshold / 2))
        rows.append([*(_format(line[name]) for name in names), _format(threshold, "answers all")])
    head = [titles.get(name, name) for name in names]
    return [*head, f"threshold ({results['score']})"], rows


def _format(value: float | None, without: str = "-") -> str:
    return without if value is None else f"{value:.4f}"


def _value(pair: str, text: str) -> Any:
    for number in (int, float):  # YAML takes 1e-4 for a word
        with suppress(ValueError):
            return number(text)
    try:
        return parse_yaml(text)
    except Unreadable as error:
        raise InvalidSettingError(
            f"Expected a number, a word or a list such as [1, 2] after =, but got {pair[:80]!r}."
        ) from error
