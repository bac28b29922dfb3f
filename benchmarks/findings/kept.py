"""Kept results, as the numbers and tables of the pages need them."""

import json
import math
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rightreasons import benchmark

RESULTS = Path(__file__).parents[1] / "results"
NOT_RUN = "not run yet"
"""What a page says where the suite has no rows; numbers made from it are no numbers (NaN)."""
Measured = dict[str, dict[str, Any]]


@cache
def figures(name: str) -> dict[str, Any]:
    """Read what a script of ``benchmarks`` wrote to ``benchmarks/results/<name>.json``."""
    return json.loads((RESULTS / f"{name}.json").read_text())


@cache
def comparison(suite: str, folder: str = "") -> benchmark.Comparison:
    """Compare the rows of a suite with the paper.

    ``folder`` lies in benchmarks/results. By default it is the first word of the suite's name.
    """
    return benchmark.show_suite(suite, RESULTS / (folder or suite.partition("-")[0]))


@cache
def measured(suite: str) -> dict[tuple[str, str], Measured]:
    """Return all measures of a suite by variant and method."""
    lines = comparison(suite).to_dict()["lines"]
    return {(line["variant"], line["method"]): line["measures"] for line in lines}


def ours(suite: str, variant: str, method: str, measure: str) -> float:
    """Return the mean over seeds; NaN if there are no rows."""
    return _mean(measured(suite)[variant, method][measure]["ours"])


def deviation(suite: str, variant: str, method: str, measure: str) -> float:
    """Return the deviation over seeds; NaN if there are no rows."""
    found = measured(suite)[variant, method][measure]["ours"]
    return math.nan if found is None or found["deviation"] is None else found["deviation"]


def paper(suite: str, variant: str, method: str, measure: str) -> float:
    """Return the paper's mean; NaN if it has none."""
    return _mean(measured(suite)[variant, method][measure]["paper"])


def _mean(figure: dict[str, float] | None) -> float:
    return math.nan if figure is None else figure["mean"]


def is_run(suite: str) -> bool:
    """Tell whether every line of a suite has a row."""
    lines = measured(suite).values()
    return all(one["ours"] is not None for line in lines for one in list(line.values())[:1])


def show_value(value: str) -> str:
    """Return a number as the pages show it."""
    return NOT_RUN if "nan" in value else value


def percent(share: float, digits: int = 1) -> str:
    """Write a share as a percentage, without the sign. Minus zero becomes zero."""
    return f"{round(100 * share, digits) + 0.0:.{digits}f}"


def cell(
    figure: dict[str, float | None] | None,
    *,
    scale: float = 100,
    digits: int = 1,
    absent: str = "–",
) -> str:
    """Write a mean and its deviation for a cell of a table."""
    if figure is None or figure["mean"] is None:
        return absent
    mean, deviation = figure["mean"], figure.get("deviation")
    text = f"{scale * mean:.{digits}f}"
    return text if deviation is None else f"{text} ± {scale * deviation:.{digits}f}"


def ends(names: tuple[str, str], shares: Iterable[float], digits: int = 1) -> dict[str, str]:
    """Name the smallest and the largest share, as percentages."""
    values = list(shares)
    if any(math.isnan(value) for value in values):
        values = [math.nan]
    return {names[0]: percent(min(values), digits), names[1]: percent(max(values), digits)}


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@cache
def kept_rows(folder: str) -> list[dict[str, Any]]:
    """Read all rows of a folder, also those of candidates that were not chosen."""
    lines = (RESULTS / folder / "results.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]
