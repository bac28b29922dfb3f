"""A table of words, for a terminal or for Markdown."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["markdown_table", "text_table"]


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to the same width.

    Example:
        >>> print(text_table(["method", "ours"], [["ERM", "22.4"], ["R3", "97.1"]]))
        method  ours
        ------  ----
        ERM     22.4
        R3      97.1
    """
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    rule = ["-" * width for width in widths]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, rule, *rows)
    )


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns between bars.

    Example:
        >>> print(markdown_table(["method", "ours"], [["ERM", "22.4"]]))
        | method | ours |
        | --- | --- |
        | ERM | 22.4 |
    """
    lines = (header, ["---"] * len(header), *rows)
    return "\n".join(
        f"| {' | '.join(word.replace('|', '&#124;') for word in row)} |" for row in lines
    )
