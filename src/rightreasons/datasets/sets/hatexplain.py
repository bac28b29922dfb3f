"""HateXplain: posts with rationales; a model must not judge by who is spoken of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from rightreasons.core.checks import check_choice
from rightreasons.datasets.dataset import Card, Splits
from rightreasons.datasets.texts.reading import read_json_lines
from rightreasons.datasets.texts.splits import TextRow, text_splits
from rightreasons.errors import DatasetNotFoundError

__all__ = ["IDENTITY_WORDS", "hatexplain", "spans_of_tokens"]

FILE = "hatexplain.jsonl.gz"
IDENTITY_WORDS = (
    *("african", "africans", "arab", "arabs", "asian", "asians", "black", "blacks", "caucasian"),
    *("chinese", "christian", "christians", "gay", "gays", "hindu", "hispanic", "homosexual"),
    *("immigrant", "immigrants", "indian", "islam", "islamic", "israel", "jew", "jewish", "jews"),
    *("lesbian", "lesbians", "mexican", "mexicans", "migrant", "migrants", "muslim", "muslims"),
    *("refugee", "refugees", "transgender", "white", "whites", "woman", "women"),
)
"""Words for people that are no insult by themselves."""
TARGETS = ("African", "Arab", "Asian", "Homosexual", "Islam", "Jewish", "Refugee", "Women")
NO_TARGET = "other or none"
CARD = Card(
    name="hatexplain",
    description="Posts that are normal or toxic, with rationales. The content is offensive.",
    source="Mathew et al. 2021",
    licence="MIT",
    shortcut="words for groups of people occur mostly in toxic posts",
    classes=("normal", "toxic"),
    groups=(*TARGETS, NO_TARGET),
)


def hatexplain(
    data_dir: str | PathLike[str],
    *,
    mask: Literal["identity", "rationale"] = "identity",
    strength: float = 1.0,
    tokenizer: str = "words",
    max_length: int = 64,
    seed: int = 0,
) -> Splits:
    """Posts, normal or toxic; words for groups of people, or non-rationales, masked.

    Hate speech and offensive posts are toxic; posts without a majority are left out. Groups are the
    communities that at least two annotators named. Splits are the official ones. The content is
    offensive.

    Args:
        data_dir: Folder with ``hatexplain.jsonl.gz``.
        mask: ``"identity"`` masks words such as "women" or "muslims"; ``"rationale"`` masks what
            fewer than half of the annotators marked, in toxic posts.
        strength: Value of the mask where the model must not look, in (0, 1].
        tokenizer: ``"words"``, ``"minilm"`` or the folder of a language model.
        max_length: Most tokens of a post.
        seed: Takes no part; all data sets have it.

    References:
        mathew2021hatexplain
    """
    del seed
    check_choice("mask", mask, ("identity", "rationale"))
    path = Path(data_dir).expanduser() / FILE
    if not path.is_file():
        raise DatasetNotFoundError(
            f"Expected HateXplain at {path}, but there is no such file. Write one line of JSON for "
            "each post, with split, label, targets, tokens and rationales."
        )
    rows = [
        _row(post, with_rationale=mask == "rationale")
        for post in read_json_lines(path)
        if post["split"] != "none" and post["label"] != "undecided"
    ]
    return text_splits(
        rows,
        CARD,
        tokenizer=tokenizer,
        max_length=max_length,
        words=IDENTITY_WORDS if mask == "identity" else None,
        relevant=mask == "rationale",
        strength=strength,
    )


def spans_of_tokens(tokens: Sequence[str], marked: Sequence[bool]) -> list[tuple[int, int]]:
    """The characters of marked tokens in the text that joins all tokens by spaces.

    Example:
        >>> spans_of_tokens(["a", "bad", "day"], [False, True, False])
        [(2, 5)]
    """
    spans, first = [], 0
    for token, is_marked in zip(tokens, marked, strict=True):
        if is_marked and token:
            spans.append((first, first + len(token)))
        first += len(token) + 1
    return spans


def _row(post: Mapping[str, Any], *, with_rationale: bool) -> TextRow:
    tokens = [str(token) for token in post["tokens"]]
    given = [str(one) for one in post["rationales"] if len(one) == len(tokens)]
    spans = None
    if with_rationale and given:
        votes = [sum(one[place] == "1" for one in given) for place in range(len(tokens))]
        spans = spans_of_tokens(tokens, [2 * vote >= len(given) and vote > 0 for vote in votes])
    return TextRow(
        text=" ".join(tokens),
        label=int(post["label"] != "normal"),
        split=str(post["split"]),
        group=_group(post["targets"]),
        spans=spans,
    )


def _group(targets: Sequence[Sequence[str]]) -> int:
    votes = Counter(name for some in targets for name in set(some))
    named = [name for name in TARGETS if votes[name] >= 2]
    names = (*TARGETS, NO_TARGET)
    return names.index(max(named, key=lambda name: votes[name]) if named else NO_TARGET)
