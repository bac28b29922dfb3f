"""Texts in tokens, with masks made from spans or words: the training, validation and test data."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rightreasons.core.checks import check_fraction, check_integer
from rightreasons.datasets.dataset import Card, InMemory, Splits, TextCard, group_counts
from rightreasons.datasets.texts.spans import Span, find_words, token_mask
from rightreasons.datasets.texts.tokenizers import Encoded, Tokenizer, load_tokenizer
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Batch

__all__ = ["TextRow", "Words", "text_splits", "words_for"]

logger = logging.getLogger("rightreasons")

Words = Sequence[str] | Mapping[int, Sequence[str]]
"""A list of words, or one for each label."""


@dataclass(frozen=True)
class TextRow:
    """One text.

    Args:
        text: The text.
        label: Number of its class.
        split: ``"train"``, ``"val"``, ``"test"``, or the name of a further test set.
        group: Number of its group; -1 is unknown.
        spans: Marked characters; None if nobody annotated the text.
    """

    text: str
    label: int
    split: str
    group: int = -1
    spans: Sequence[Span] | None = None


def words_for(label: int, words: Words) -> Sequence[str]:
    """The words that count for a text of this label."""
    return words.get(label, ()) if isinstance(words, Mapping) else words


def text_splits(
    rows: Sequence[TextRow],
    card: Card,
    *,
    tokenizer: object = "words",
    max_length: int = 128,
    words: Words | None = None,
    relevant: bool = False,
    strength: float = 1.0,
) -> Splits:
    """Make splits of texts in memory.

    Args:
        rows: The texts.
        card: Names of classes and groups, and description.
        tokenizer: Name of a tokenizer, or one itself, see `load_tokenizer`.
        max_length: Most tokens of a text; later ones are cut off.
        words: Words that are masked wherever they stand, and the substitutes for masked tokens.
        relevant: Whether spans mark what the model should look at; the mask is the rest then.
        strength: Value of the mask where the model must not look, in (0, 1].
    """
    check_integer("max_length", max_length, low=4)
    if not check_fraction("strength", strength):
        raise InvalidSettingError("Expected `strength` above 0, but got 0. Leave the spans out.")
    train = [row.text for row in rows if row.split == "train"]
    listed = _all_words(words)
    tokens = load_tokenizer(tokenizer, train, keep=listed)
    text = TextCard(
        vocabulary=len(tokens.vocabulary),
        tokenizer=tokens.name,
        padding=tokens.padding,
        mask_token=tokens.mask_token,
        special=tokens.special,
        substitutes=tokens.substitutes(listed),
        sha256=_digest(row.text for row in rows),
    )
    train_groups = torch.tensor([row.group for row in rows if row.split == "train"])
    card = replace(card, text=text, train_group_counts=group_counts(train_groups, len(card.groups)))
    maker = _Maker(tokens, max_length, words, relevant, strength, has_groups=bool(card.groups))
    by_name: dict[str, list[TextRow]] = {"train": [], "test": []}
    for row in rows:
        by_name.setdefault(row.split, []).append(row)
    empty = [name for name, some in by_name.items() if not some]
    if empty:
        raise InvalidSettingError(
            f"Expected texts in the split {empty[0]!r}, but got none. Fill the column `split` with "
            "train, val and test."
        )
    parts = {
        name: InMemory(maker.batch(some), card, vocabulary=tokens.vocabulary)
        for name, some in by_name.items()
    }
    maker.report(max_length)
    return Splits(
        train=parts.pop("train"),
        val=parts.pop("val", None),
        test=parts.pop("test"),
        more_tests=parts,
    )


class _Maker:
    """Makes batches, and counts the spans that lie beyond the last token."""

    def __init__(
        self,
        tokens: Tokenizer,
        max_length: int,
        words: Words | None,
        relevant: bool,
        strength: float,
        *,
        has_groups: bool,
    ) -> None:
        self.tokens = tokens
        self.max_length = max_length
        self.words = words
        self.relevant = relevant
        self.strength = strength
        self.has_groups = has_groups
        self.num_spans = self.num_beyond = 0

    def batch(self, rows: Sequence[TextRow]) -> Batch:
        """All texts of a split, padded to the longest."""
        encoded = self.tokens.encode([row.text for row in rows], self.max_length)
        longest = max(len(one.ids) for one in encoded)
        x = torch.full((len(rows), longest), self.tokens.padding)
        attention, mask = torch.zeros_like(x), torch.zeros(len(rows), longest)
        for n, (row, one) in enumerate(zip(rows, encoded, strict=True)):
            x[n, : len(one.ids)] = torch.tensor(one.ids)
            attention[n, : len(one.ids)] = 1
            mask[n, : len(one.ids)] = self._mask(row, one)
        has_masks = self.words is not None or any(row.spans is not None for row in rows)
        annotated = [self.words is not None or row.spans is not None for row in rows]
        groups = torch.tensor([row.group for row in rows])
        return Batch(
            x=x,
            y=torch.tensor([row.label for row in rows]),
            mask=mask if has_masks else None,
            annotated=torch.tensor(annotated) if has_masks else None,
            group=groups if self.has_groups else None,
            inputs={"attention_mask": attention},
        )

    def report(self, max_length: int) -> None:
        """Log how many spans were cut off."""
        if self.num_beyond:
            logger.warning(
                "%.3g %% of the spans lie beyond %d tokens and mask nothing. Raise `max_length`.",
                100 * self.num_beyond / self.num_spans,
                max_length,
            )

    def _mask(self, row: TextRow, one: Encoded) -> Tensor:
        spans = list(row.spans or ())
        if self.words is not None:
            spans += find_words(row.text, words_for(row.label, self.words))
        self.num_spans += len(spans)
        self.num_beyond += sum(first >= one.end for first, _ in spans)
        marked = torch.tensor(token_mask(one.offsets, spans))
        if self.relevant and row.spans is not None:
            is_word = torch.tensor([int(first < last) for first, last in one.offsets])
            marked = is_word * (1 - marked)
        return self.strength * marked


def _all_words(words: Words | None) -> list[str]:
    if words is None:
        return []
    lists = words.values() if isinstance(words, Mapping) else [words]
    return sorted({word.lower() for some in lists for word in some})


def _digest(texts: Iterable[str]) -> str:
    sha = hashlib.sha256()
    for text in texts:
        sha.update(f"{len(text)} ".encode())
        sha.update(text.encode())
    return sha.hexdigest()
