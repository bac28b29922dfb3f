"""How the command line shows a model that may abstain."""

from __future__ import annotations

from typing import Any

__all__ = ["selective_table"]


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
