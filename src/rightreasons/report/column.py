"""The table: what each column means, which way is better, and its cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rightreasons.metrics import METRICS
from rightreasons.report.estimate import clear_best
from rightreasons.report.section import Method, Section
from rightreasons.report.wording import interval, percent, quantity, spread

__all__ = ["Cell", "Column", "make_columns"]

KNOWN = {
    "group_accuracy/worst": (
        "Worst group",
        "Share of right answers in the group that fares worst.",
    ),
    "group_accuracy/average": ("Average of groups", "Mean over groups, every group counted alike."),
    "accuracy": ("Accuracy", "Share of right answers over all test samples."),
    "swap_accuracy": (
        "Swap accuracy",
        "Share of right answers after what the mask covers was exchanged with other samples.",
    ),
    "input_gradient_mass": (
        "Gradient in mask",
        "Share of the input gradient that lies where the model must not look.",
    ),
    "calibration_error": (
        "Calibration error",
        "How far the model's confidence is from how often it is right.",
    ),
    "swap_accuracy/worst": (
        "Swap, worst class",
        "Swap accuracy in the class that fares worst.",
    ),
    "group_accuracy/weighted": (
        "Weighted groups",
        "Mean over groups, weighted by how often they occur in training.",
    ),
}
PLAIN = {
    "gradient_fragility": (
        "Gradient fragility",
        "How wide the loss gradient of masked features can be when they move a little: proved.",
    ),
    "gradient_fragility/attack": ("Fragility found", "The width of that gradient that was seen."),
    "gradient_fragility/ratio": (
        "Fragility ratio",
        "Fragility of masked features beside that of all others.",
    ),
    "certified_change": (
        "Certified change",
        "The most the label's logit can change when masked features move a little: proved.",
    ),
    "certified_change/attack": ("Change found", "The change of that logit that was seen."),
    "relative_core_sensitivity": (
        "Core sensitivity",
        "From -1, the model reads masked features alone, to 1, it reads the others alone.",
    ),
}
MINOR = (
    "swap_accuracy/average",
    "swap_accuracy/before",
    "swap_accuracy/blurred",
    "swap_accuracy/changed",
    "swap_accuracy/cost",
    "swap_accuracy/pasted",
    "swap_accuracy/removed",
    "certified_change/attack_max",
    "certified_change/max",
    "gradient_fragility/attack_max",
    "gradient_fragility/core",
    "gradient_fragility/core_max",
    "gradient_fragility/max",
    "relative_core_sensitivity/core_noisy",
    "relative_core_sensitivity/masked_noisy",
)
DETAILS = ("/low", "/high", "/n", "/area")
GROUP_SUMMARIES = ("average", "worst", "weighted")


@dataclass(frozen=True)
class Cell:
    """One number of the table.

    Args:
        value: The number as text; empty if it was not measured.
        spread: Standard deviation over seeds, as text.
        interval: The interval from low to high, as text.
        note: Something to compare the number with.
        is_best: Whether it is clearly the best of its column.
    """

    value: str = ""
    spread: str = ""
    interval: str = ""
    note: str = ""
    is_best: bool = False


@dataclass(frozen=True)
class Column:
    """One measure of all methods.

    Args:
        key: Key in the results.
        title: Heading of the column.
        meaning: One sentence on what it measures.
        higher_is_better: Whether more is better; None if unknown.
        cells: One for each method.
    """

    key: str
    title: str
    meaning: str
    higher_is_better: bool | None
    cells: tuple[Cell, ...]


def make_columns(section: Section) -> list[Column]:
    """Make a column for each measure that any method has, the most important first."""
    keys = {key for method in section.methods for key in _measures(method)}
    known = {**KNOWN, **PLAIN}
    ordered = [key for key in known if key in keys] + sorted(keys - set(known))
    return [_column(key, section.methods) for key in ordered]


def _measures(method: Method) -> set[str]:
    keys = {key for record in method.records for key in record.metrics()}
    return {key for key in keys if not _is_detail(key)}


def _is_detail(key: str) -> bool:
    if key.startswith("group_accuracy/"):  # before the endings: a group may be called "a/n"
        return key.removeprefix("group_accuracy/") not in GROUP_SUMMARIES
    if key.startswith("risk_coverage/"):  # they have a table of their own
        return True
    return key.endswith(DETAILS) or "/class/" in key or key in MINOR


def _column(key: str, methods: Sequence[Method]) -> Column:
    name = key.split("/", 1)[0]
    better = METRICS[name].higher_is_better if name in METRICS else None  # type: ignore[attr-defined]
    title, meaning = {**KNOWN, **PLAIN}.get(key, (key.replace("_", " ").replace("/", ", "), ""))
    estimates = [method.estimate(key) for method in methods]
    best = None if better is None else clear_best(estimates, higher_is_better=better)
    cells = []
    for position, (method, estimate) in enumerate(zip(methods, estimates, strict=True)):
        if estimate is None:
            cells.append(Cell())
            continue
        share = key in KNOWN
        cells.append(
            Cell(
                value=quantity(estimate.value, is_share=share),
                spread=spread(estimate, is_share=share),
                interval=interval(estimate, is_share=share),
                note=_note(key, method),
                is_best=position == best,
            )
        )
    return Column(key, title, meaning, better, tuple(cells))


def _note(key: str, method: Method) -> str:
    area = method.estimate(f"{key}/area")
    return f"mask covers {percent(area.value)}" if area else ""
