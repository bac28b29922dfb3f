"""Settings and names as people write them on the command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
import yaml

from rightreasons.errors import InvalidSettingError

__all__ = ["named", "settings_of", "with_options_of"]

Command = TypeVar("Command", bound=Callable[..., None])


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


def settings_of(pairs: Sequence[str] | None) -> dict[str, Any]:
    """Settings from ``name=value`` pairs.

    Example:
        >>> settings_of(["step-size=1e-4", "hidden=[8, 8]"])
        {'step_size': 0.0001, 'hidden': [8, 8]}
    """
    settings = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InvalidSettingError(f"Expected a setting as name=value, but got {pair!r}.")
        settings[name.replace("-", "_")] = _value(pair, value)
    return settings


def named(text: str | None) -> list[str] | None:
    """Names with commas between them; None if there are none.

    Example:
        >>> named("accuracy, rps")
        ['accuracy', 'rps']
    """
    return [name.strip() for name in text.split(",") if name.strip()] if text else None


def _value(pair: str, text: str) -> Any:
    for number in (int, float):  # YAML takes 1e-4 for a word
        with suppress(ValueError):
            return number(text)
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidSettingError(
            f"Expected a number, a word or a list such as [1, 2] after =, but got {pair!r}."
        ) from error
