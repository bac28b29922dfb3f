"""The audited samples, read once: images with small copies and properties, texts as words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import override

from rightreasons.audit.cause import ask
from rightreasons.audit.properties import image_properties
from rightreasons.audit.regions import Region, shrink_images
from rightreasons.core.model_modes import innermost
from rightreasons.datasets.dataset import Dataset
from rightreasons.datasets.texts.tokenizers import join_pieces, starts_of_words
from rightreasons.errors import InvalidBatchError
from rightreasons.probe.embeddings import call_model

__all__ = ["Marked", "Samples", "TextSamples", "Word", "choose_recipients", "read_samples"]

CHUNK = 100
MOST_RECIPIENTS = 200
SURE = 0.7
MOST_WORDS, LEAST_TEXTS = 3000, 3
MOST_SHOWN, LONGEST_WORD = 60, 40
GONE = -1
"""Stands for padding in the tokens of audited texts."""

Advance = Callable[[int], None]
Word = tuple[int, ...]
Marked = list[tuple[str, bool]]
"""The words of a text, and whether each belongs to a finding."""


@dataclass(frozen=True)
class Samples:
    """The audited images: small copies, properties and the model's answers.

    Args:
        data: The data set.
        rows: Row of each audited image in the data set, ``(N,)``.
        y: Labels ``(N,)``.
        small: Small copies, ``(N, C, h, w)``.
        properties: Properties of whole images by name, ``(N,)`` each.
        answers: Probabilities ``(N, K)`` that the model gives; None without a model.
        search: Places of the images for the search, ascending.
        cause: Places of the others, on which candidates are planted.
    """

    data: Dataset
    rows: Tensor
    y: Tensor
    small: Tensor
    properties: dict[str, Tensor]
    answers: Tensor | None
    search: Tensor
    cause: Tensor

    def take(self, places: Tensor) -> Tensor:
        """The images at places among the audited ones, ``(n, C, H, W)``."""
        return self.data.take(self.rows[places]).x

    def recipients(self) -> Tensor:
        """Places to plant on: not searched, and the model is sure and right about them."""
        return choose_recipients(self.answers, self.y, self.cause)


def choose_recipients(answers: Tensor | None, y: Tensor, cause: Tensor) -> Tensor:
    """Places to plant on: at most 200 samples that the model is sure and right about.

    Args:
        answers: Probabilities ``(N, K)`` that the model gives; None without a model.
        y: Labels ``(N,)``.
        cause: Places that may be chosen.
    """
    if answers is None:
        return cause[:0]
    confidence, predicted = answers[cause].max(dim=1)
    right = predicted == y[cause]
    chosen = cause[right & (confidence >= SURE)]
    if len(chosen) < MOST_RECIPIENTS / 5:
        chosen = cause[right]
    return chosen[torch.linspace(0, len(chosen) - 1, min(len(chosen), MOST_RECIPIENTS)).long()]


def read_samples(
    data: Dataset,
    model: nn.Module | None,
    rows: Tensor,
    halves: tuple[Tensor, Tensor],
    advance: Advance,
) -> Samples:
    """Read the audited images once: small copies, properties and answers are kept."""
    small, answers = [], []
    properties: dict[str, list[Tensor]] = {}
    for part in torch.split(rows, CHUNK):
        x = data.take(part).x
        small.append(shrink_images(x))
        for name, values in image_properties(x).items():
            properties.setdefault(name, []).append(values)
        if model is not None:
            answers.append(ask(model, x))
        advance(len(part))
    return Samples(
        data=data,
        rows=rows,
        y=data.labels[rows].cpu(),
        small=torch.cat(small),
        properties={name: torch.cat(values) for name, values in properties.items()},
        answers=torch.cat(answers) if answers else None,
        search=halves[0],
        cause=halves[1],
    )


class _Reader(nn.Module):
    """A model of token ids alone: where they are `GONE` is padding."""

    def __init__(self, model: nn.Module, padding: int, *, attends: bool) -> None:
        super().__init__()
        self.model, self.padding, self.attends = innermost(model), padding, attends

    @override
    def forward(self, x: Tensor) -> Tensor:
        """Token ids ``(N, T)`` -> logits ``(N, K)``."""
        used = x != GONE
        longest = max(1, int(used.sum(dim=1).max()))
        x, used = x[:, :longest], used[:, :longest]
        inputs = {"attention_mask": used.long()} if self.attends else None
        return call_model(self.model, torch.where(used, x, self.padding), inputs)


class TextSamples:
    """The audited texts as lists of token ids, and what words, marks and names they have.

    Args:
        data: Texts as token ids, with a vocabulary.
        model: The model; None to look at the data alone.
        rows: Rows of the audited texts.
        halves: Places of the searched texts and of those to plant on.
        advance: Function that is told the number of texts that were read.
    """

    def __init__(
        self,
        data: Dataset,
        model: nn.Module | None,
        rows: Tensor,
        halves: tuple[Tensor, Tensor],
        advance: Advance,
    ) -> None:
        if data.vocabulary is None or data.card.text is None:
            raise InvalidBatchError(
                "Expected texts with a vocabulary to audit, but got token ids alone. Make the data "
                "with rr.text.dataset."
            )
        self.data, self.rows, self.card = data, rows, data.card
        self.search, self.cause = halves
        self.vocabulary = data.vocabulary
        self.special = set(data.card.text.special)
        self.begins = starts_of_words(self.vocabulary)
        self.y = data.labels[rows].cpu()
        self.attends = False
        self.texts = self._read(advance)
        self.width = max(len(text) for text in self.texts)
        self.front, self.back = self._frame()
        self.reader = None
        self.answers = None
        if model is not None:
            self.reader = _Reader(model, data.card.text.padding, attends=self.attends)
            self.answers = ask(self.reader, self.pad(self.texts))

    @property
    def starts(self) -> Tensor | None:
        """Whether a token begins a word, for each token id; None if all do."""
        return None if self.begins is None else torch.tensor(self.begins)

    def recipients(self) -> Tensor:
        """Places to plant on: texts of the second half that the model is sure and right about."""
        return choose_recipients(self.answers, self.y, self.cause)

    def body(self, text: Sequence[int]) -> range:
        """The places of a text without the special tokens that all texts begin and end with."""
        return range(self.front, max(self.front, len(text) - self.back))

    def spans(self, text: Sequence[int]) -> list[tuple[int, int]]:
        """First and last token (exclusive) of each word."""
        body, begins = self.body(text), self.begins
        first = [at for at in body if begins is None or at == body.start or begins[text[at]]]
        return list(zip(first, [*first[1:], body.stop], strict=True))

    def count_words(self, places: Tensor) -> tuple[list[Word], NDArray[np.float64]]:
        """The frequent words of some texts, and which text has which, ``(N, M)``."""
        has = [
            {tuple(text[first:last]) for first, last in self.spans(text)}
            for text in (self.texts[place] for place in places.tolist())
        ]
        counts = Counter(word for some in has for word in some)
        least = max(LEAST_TEXTS, len(has) // 200)
        frequent = [
            word
            for word in sorted(counts, key=lambda one: (-counts[one], one))
            if counts[word] >= least and not self.special.intersection(word)
        ][:MOST_WORDS]
        numbers = {word: number for number, word in enumerate(frequent)}
        presence = np.zeros((len(has), len(frequent)))
        for row, some in enumerate(has):
            presence[row, [numbers[word] for word in some if word in numbers]] = 1
        return frequent, presence

    def pad(self, texts: Sequence[list[int]]) -> Tensor:
        """Token ids ``(N, T)``; a text that is too long loses its last words."""
        x = torch.full((len(texts), self.width), GONE)
        for row, text in enumerate(texts):
            kept = text
            if len(text) > self.width:
                kept = text[: self.width - self.back] + text[len(text) - self.back :]
            x[row, : len(kept)] = torch.tensor(kept, dtype=torch.long)
        return x

    def name(self, word: Iterable[int]) -> str:
        """A word to read; a very long one is cut."""
        name = join_pieces(self.vocabulary[token] for token in word)
        return name if len(name) <= LONGEST_WORD else f"{name[:LONGEST_WORD]}…"

    def mark(self, text: list[int], region: Region | None) -> Marked:
        """The words of a text around what a region marks, for people to read."""
        marks = [False] * len(text)
        if region is not None:
            marks = region.locate(torch.tensor([text]))[0].bool().tolist()
        words = [
            (self.name(text[first:last]), any(marks[first:last]))
            for first, last in self.spans(text)
        ]
        first = next((at for at, (_, marked) in enumerate(words) if marked), 0)
        begin = max(0, min(first - MOST_SHOWN // 4, len(words) - MOST_SHOWN))
        before, behind = begin > 0, begin + MOST_SHOWN < len(words)
        shown = words[begin : begin + MOST_SHOWN]
        return [*[("…", False)] * before, *shown, *[("…", False)] * behind]

    def is_mark(self, token: int) -> bool:
        """Whether a token is punctuation or another sign without letters and digits."""
        name = self.vocabulary[token]
        return token not in self.special and not any(letter.isalnum() for letter in name)

    def measure(self, text: Sequence[int]) -> dict[str, float]:
        """Length, share of marks, and share of tokens with a capital letter.

        A tokenizer that writes all words small leaves no capitals.
        """
        body = [text[at] for at in self.body(text)]
        ordinary = [self.vocabulary[token] for token in body if token not in self.special]
        capitals = sum(any(letter.isupper() for letter in word) for word in ordinary)
        return {
            "length": float(len(body)),
            "punctuation": sum(map(self.is_mark, body)) / max(1, len(body)),
            "capitals": capitals / max(1, len(ordinary)),
        }

    def _read(self, advance: Advance) -> list[list[int]]:
        texts: list[list[int]] = []
        for part in torch.split(self.rows, CHUNK):
            batch = self.data.take(part)
            inputs = batch.inputs or {}
            unknown = set(inputs) - {"attention_mask"}
            if unknown:
                raise InvalidBatchError(
                    f"Expected texts with an attention mask at most, but got {sorted(unknown)[0]}, "
                    "which planted texts would not have."
                )
            self.attends = bool(inputs)
            used = inputs.get("attention_mask", torch.ones_like(batch.x)).bool()
            texts += [x[keep].tolist() for x, keep in zip(batch.x, used, strict=True)]
            advance(len(part))
        return texts

    def _frame(self) -> tuple[int, int]:
        """How many special tokens stand before and behind every text."""
        counts = []
        for end in (0, -1):
            tokens = {text[end] for text in self.texts}
            counts.append(int(len(tokens) == 1 and tokens <= self.special and self.width > 2))
        return counts[0], counts[1]
