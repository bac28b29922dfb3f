"""Spans of characters, the words of a list in a text, and the masks of tokens they make."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rightreasons.errors import InvalidBatchError, InvalidSettingError

__all__ = ["check_spans", "find_words", "token_mask"]

Span = tuple[int, int]


def token_mask(encoding: Any, spans: Iterable[Sequence[int]]) -> list[int]:
    """1 for every token that a span touches, 0 elsewhere and for special tokens.

    Args:
        encoding: One text in tokens: what a fast tokenizer of transformers gives with
            ``return_offsets_mapping=True``, or the pairs of first and last character themselves.
        spans: First and last character (exclusive) of each span.

    Example:
        >>> token_mask([(0, 0), (0, 4), (5, 9), (0, 0)], [[5, 9]])
        [0, 0, 1, 0]
    """
    offsets = encoding
    if isinstance(encoding, Mapping) or hasattr(encoding, "keys"):
        if "offset_mapping" not in encoding:
            raise InvalidBatchError(
                "Expected an encoding with `offset_mapping`, but it has none. Call a fast "
                "tokenizer with return_offsets_mapping=True."
            )
        offsets = encoding["offset_mapping"]
    pairs = [(int(first), int(last)) for first, last in offsets]
    marked = bytearray(max((last for _, last in pairs), default=0))
    for first, last in spans:
        first, last = min(int(first), len(marked)), min(int(last), len(marked))
        marked[first:last] = b"\1" * max(0, last - first)
    return [int(1 in marked[first:last]) for first, last in pairs]


def find_words(text: str, words: Iterable[str]) -> list[Span]:
    """The spans of whole words in a text, in any case.

    Example:
        >>> find_words("Spielberg's film, unspielberg", ["spielberg"])
        [(0, 9)]
    """
    pattern = _pattern(frozenset(words))
    return [] if pattern is None else [one.span() for one in pattern.finditer(text)]


_patterns: dict[frozenset[str], re.Pattern[str] | None] = {}


def _pattern(words: frozenset[str]) -> re.Pattern[str] | None:
    if words not in _patterns:
        escaped = sorted((re.escape(word) for word in words if word), key=len, reverse=True)
        joined = "|".join(escaped)
        _patterns[words] = (
            re.compile(rf"(?<!\w)(?:{joined})(?!\w)", re.IGNORECASE) if escaped else None
        )
    return _patterns[words]


def check_spans(spans: object, text: str, where: str) -> list[Span]:
    """Give spans back as pairs, or raise if they do not lie in the text.

    Args:
        spans: What a table has for a text.
        text: The text.
        where: Names the row, as the start of a sentence.
    """
    try:
        pairs = [(int(first), int(last)) for first, last in spans]  # type: ignore[attr-defined]
    except (TypeError, ValueError) as error:
        raise InvalidSettingError(
            f"{where}: expected spans as [[start, end], …] in characters, but got {spans!r}."
        ) from error
    outside = [pair for pair in pairs if not 0 <= pair[0] < pair[1] <= len(text)]
    if outside:
        raise InvalidSettingError(
            f"{where}: expected spans inside the text of {len(text)} characters, but got "
            f"{list(outside[0])}. The end is exclusive, and bytes are no characters."
        )
    return pairs
