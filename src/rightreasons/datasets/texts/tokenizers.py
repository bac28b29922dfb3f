"""Tokenizers: words as they stand in a text, or the fast tokenizers of transformers."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from rightreasons.core.checks import check_integer
from rightreasons.core.pretrained import find_language_model, require_transformers
from rightreasons.errors import InvalidSettingError

__all__ = [
    "Encoded",
    "FastTokenizer",
    "Tokenizer",
    "WordTokenizer",
    "join_pieces",
    "load_tokenizer",
    "starts_of_words",
]

PIECES = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")  # noqa: RUF001
LARGEST = 20_000
CHUNK = 1000


@dataclass(frozen=True)
class Encoded:
    """A text in tokens.

    Args:
        ids: The token ids.
        offsets: First and last character (exclusive) of each token; (0, 0) for special tokens.
        end: Where the last token ends in the text; later characters were cut off.
    """

    ids: list[int]
    offsets: list[tuple[int, int]]
    end: int


class Tokenizer(ABC):
    """Base class: cuts texts into tokens and says where each token stands."""

    name: str
    padding: int
    mask_token: int | None
    special: tuple[int, ...]
    vocabulary: Sequence[str]

    @abstractmethod
    def encode(self, texts: Sequence[str], max_length: int) -> list[Encoded]:
        """Encode texts, each cut to ``max_length`` tokens."""

    def substitutes(self, words: Iterable[str]) -> tuple[int, ...]:
        """The ids of a word list, sorted; a word of several pieces gives all of them."""
        found = {
            token
            for encoded in self.encode(sorted(words), max_length=64)
            for token in encoded.ids
            if token not in self.special
        }
        return tuple(sorted(found))


class WordTokenizer(Tokenizer):
    """Words in small letters, and marks; needs no other library.

    The vocabulary is made from texts: the most frequent words, the first in the alphabet of those
    that are equally frequent.

    Args:
        texts: Texts to take words from, those of training.
        keep: Words that are in the vocabulary however rare they are.
        size: Largest number of words.

    Example:
        >>> tokenizer = WordTokenizer(["A good film.", "A bad film."])
        >>> encoded = tokenizer.encode(["a Film, good"], max_length=8)[0]
        >>> [tokenizer.vocabulary[token] for token in encoded.ids], encoded.offsets[1]
        (['a', 'film', '[unknown]', 'good'], (2, 6))
    """

    name = "words"
    SPECIAL: ClassVar[tuple[str, ...]] = ("[padding]", "[unknown]", "[mask]")

    def __init__(
        self, texts: Iterable[str], *, keep: Iterable[str] = (), size: int = LARGEST
    ) -> None:
        counts = Counter(word for text in texts for word, _, _ in _split(text))
        first = sorted({word for kept in keep for word, _, _ in _split(kept)})
        frequent = sorted(counts, key=lambda word: (-counts[word], word))
        room = check_integer("size", size) - len(first)
        others = [word for word in frequent if word not in set(first)][: max(0, room)]
        self.vocabulary = (*self.SPECIAL, *first, *others)
        self._ids = {word: number for number, word in enumerate(self.vocabulary)}
        self.padding, self._unknown, self.mask_token = 0, 1, 2
        self.special = (0, 1, 2)

    @override
    def encode(self, texts: Sequence[str], max_length: int) -> list[Encoded]:
        return [self._encode(text, max_length) for text in texts]

    def _encode(self, text: str, max_length: int) -> Encoded:
        pieces = _split(text)[:max_length]
        offsets = [(first, last) for _, first, last in pieces]
        ids = [self._ids.get(word, self._unknown) for word, _, _ in pieces]
        if not ids:  # a text without a word still has a token
            return Encoded([self._unknown], [(0, 0)], len(text))
        return Encoded(ids, offsets, offsets[-1][1])


class FastTokenizer(Tokenizer):
    """A fast tokenizer of transformers, which knows where its tokens stand.

    Args:
        tokenizer: The tokenizer.
        name: Name of it, for the card.
    """

    def __init__(self, tokenizer: Any, name: str) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise InvalidSettingError(
                f"Expected a fast tokenizer, which knows where tokens stand in a text, but "
                f"{type(tokenizer).__name__} is slow: spans could not be mapped to tokens. Load it "
                "with AutoTokenizer.from_pretrained(..., use_fast=True)."
            )
        if tokenizer.pad_token_id is None:
            raise InvalidSettingError(
                f"Expected a tokenizer with padding, but {name!r} has none. Set "
                "tokenizer.pad_token = tokenizer.eos_token."
            )
        self._tokenizer = tokenizer
        self.name = name
        self.padding = int(tokenizer.pad_token_id)
        self.mask_token = None if tokenizer.mask_token_id is None else int(tokenizer.mask_token_id)
        self.special = tuple(sorted({int(token) for token in tokenizer.all_special_ids}))
        self.vocabulary = tuple(tokenizer.convert_ids_to_tokens(range(len(tokenizer))))

    @override
    def encode(self, texts: Sequence[str], max_length: int) -> list[Encoded]:
        encoded: list[Encoded] = []
        for first in range(0, len(texts), CHUNK):
            some = self._tokenizer(
                list(texts[first : first + CHUNK]),
                truncation=True,
                max_length=max_length,
                return_offsets_mapping=True,
                return_attention_mask=False,
            )
            for ids, offsets in zip(some["input_ids"], some["offset_mapping"], strict=True):
                ends = [end for _, end in offsets]
                pairs = [(int(start), int(end)) for start, end in offsets]
                encoded.append(Encoded(list(ids), pairs, max(ends, default=0)))
        return encoded


def load_tokenizer(
    tokenizer: object, texts: Iterable[str], *, keep: Iterable[str] = ()
) -> Tokenizer:
    """The tokenizer that a setting stands for.

    Args:
        tokenizer: ``"words"``; ``"minilm"`` or the folder of a language model; or a fast tokenizer
            of transformers itself.
        texts: Texts of training, for ``"words"``.
        keep: Words that must be in the vocabulary of ``"words"``.
    """
    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    if tokenizer == "words":
        return WordTokenizer(texts, keep=keep)
    if not isinstance(tokenizer, str):
        return FastTokenizer(tokenizer, type(tokenizer).__name__)
    require_transformers(f"The tokenizer {tokenizer!r}")
    from transformers import AutoTokenizer

    loader: Any = AutoTokenizer
    folder = find_language_model(tokenizer)
    return FastTokenizer(loader.from_pretrained(folder, local_files_only=True), tokenizer)


def starts_of_words(vocabulary: Sequence[str]) -> list[bool] | None:
    """Which tokens begin a word; None if every token is a word.

    Three ways to write pieces are known: "##" goes on with a word, "Ġ" and "▁" begin one.

    Example:
        >>> starts_of_words(["a", "##b"]), starts_of_words(["a", "b"])
        ([True, False], None)
    """
    if any(len(token) > 2 and token.startswith("##") for token in vocabulary):
        return [not token.startswith("##") for token in vocabulary]
    for sign in ("Ġ", "▁"):
        begins = [token.startswith(sign) for token in vocabulary]
        if sum(begins) > len(begins) / 20:
            marks = (not any(letter.isalnum() for letter in token) for token in vocabulary)
            return [one or mark for one, mark in zip(begins, marks, strict=True)]
    return None


def join_pieces(tokens: Iterable[str]) -> str:
    """The word that pieces make.

    Example:
        >>> join_pieces(["spiel", "##berg"]), join_pieces(["Ġfilm"])
        ('spielberg', 'film')
    """
    pieces = [token[2:] if token.startswith("##") and token != "##" else token for token in tokens]
    return "".join(piece.lstrip("Ġ▁") if len(piece) > 1 else piece for piece in pieces)


def _split(text: str) -> list[tuple[str, int, int]]:
    """The words and marks of a text in small letters, each with its first and last character."""
    return [(one.group().lower(), one.start(), one.end()) for one in PIECES.finditer(text)]
