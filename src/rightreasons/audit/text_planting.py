"""Planting in texts: words, length and punctuation of another text, against controls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from rightreasons.audit.cause import LEAST_RECIPIENTS, NUM_EXAMPLES, Effect, ask
from rightreasons.audit.regions import Region
from rightreasons.audit.samples import Marked, TextSamples, Word
from rightreasons.core.rng import random_stream
from rightreasons.errors import InvalidSettingError

__all__ = [
    "Change",
    "GiveLength",
    "GiveMarks",
    "GiveWords",
    "Planted",
    "TextExample",
    "choose_controls",
    "plant_in_texts",
    "remove_words",
    "without",
]

Floats = NDArray[np.float64]

MOST_RUNS = 3
"""Most words of a donor that are planted."""


@dataclass(frozen=True)
class TextExample:
    """A text before and after planting, as words.

    Args:
        before: The text.
        after: The altered text.
        donor: The text that the words were taken from.
        label: Label of the text.
        predicted: Predicted class before and after.
    """

    before: Marked
    after: Marked
    donor: Marked
    label: int
    predicted: tuple[int, int]


@dataclass(frozen=True)
class Planted:
    """What planting did; nothing if nothing could be planted.

    Args:
        effect: The planted effect.
        examples: Some texts before and after.
        control: Share of predictions that control words turn into the donor's class.
    """

    effect: Effect | None = None
    examples: tuple[TextExample, ...] = ()
    control: float | None = None


class Change(ABC):
    """Base class: gives a text something that another text has.

    Args:
        samples: The audited texts.
    """

    has_control = False

    def __init__(self, samples: TextSamples) -> None:
        self.samples = samples

    @abstractmethod
    def give(self, text: list[int], donor: int) -> list[int]:
        """The text with what the donor, a place, has instead of its own."""

    def give_control(self, text: list[int], donor: int) -> list[int]:
        """The text with a control instead of what the donor has."""
        del donor
        return text

    def around(self, text: list[int], body: list[int]) -> list[int]:
        """Another body between the special tokens of a text."""
        end = len(text) - self.samples.back
        return [*text[: self.samples.front], *body, *text[end:]]


@final
class GiveWords(Change):
    """Gives a text the words of another, at the places where they stand there.

    Args:
        samples: The audited texts.
        region: Where the words are.
        masks: Where they are in the audited texts, ``(N, T)``.
        controls: For each word one that is as frequent and does not tell.
    """

    has_control = True

    def __init__(
        self, samples: TextSamples, region: Region, masks: Tensor, controls: dict[Word, Word]
    ) -> None:
        super().__init__(samples)
        self.region, self.masks, self.controls = region, masks, controls

    @override
    def give(self, text: list[int], donor: int) -> list[int]:
        return self._insert(text, self._runs(donor))

    @override
    def give_control(self, text: list[int], donor: int) -> list[int]:
        runs = [(at, self.controls.get(word, word)) for at, word in self._runs(donor)]
        return self._insert(text, runs)

    def _insert(self, text: list[int], runs: Sequence[tuple[int, Word]]) -> list[int]:
        begins = self.samples.begins
        changed = without(text, self.region.locate(torch.tensor([text]))[0])
        for first, word in runs:
            last = max(self.samples.front, len(changed) - self.samples.back)
            at = min(first, last)
            while begins is not None and at < last and not begins[changed[at]]:
                at += 1  # not inside a word
            changed = [*changed[:at], *word, *changed[at:]]
        return changed

    def _runs(self, donor: int) -> list[tuple[int, Word]]:
        """The first words of the finding in a donor, with their places."""
        text, mask = self.samples.texts[donor], self.masks[donor]
        spans = [(first, last) for first, last in self.samples.spans(text) if bool(mask[first])]
        return [(first, tuple(text[first:last])) for first, last in spans[:MOST_RUNS]]


def choose_controls(
    words: Sequence[Word], counts: Floats, strengths: Floats, taken: set[Word]
) -> dict[Word, Word]:
    """For each word one that is as long and as frequent, and tells little.

    Args:
        words: All words.
        counts: How many texts have each, ``(M,)``.
        strengths: How well each tells a class, ``(M,)``.
        taken: The words that need a control.
    """
    free = [number for number, word in enumerate(words) if word not in taken]
    if not free:
        return {}
    quiet = [number for number in free if strengths[number] <= np.median(strengths[free])]
    controls = {}
    for word in sorted(taken):
        own = counts[words.index(word)]
        differences = [
            (abs(len(words[number]) - len(word)), abs(counts[number] - own), number)
            for number in quiet
        ]
        controls[word] = words[min(differences)[2]]
    return controls


@final
class GiveLength(Change):
    """Gives a text the length of another: its end is cut off, or its words are said again."""

    @override
    def give(self, text: list[int], donor: int) -> list[int]:
        body = [text[at] for at in self.samples.body(text)]
        wanted = max(1, len(self.samples.body(self.samples.texts[donor])))
        return self.around(text, (body * (1 + wanted // max(1, len(body))))[:wanted])


@final
class GiveMarks(Change):
    """Gives a text the punctuation of another, at the same shares of its length."""

    @override
    def give(self, text: list[int], donor: int) -> list[int]:
        samples = self.samples
        own, other = ([one[at] for at in samples.body(one)] for one in (text, samples.texts[donor]))
        words = [token for token in own if not samples.is_mark(token)]
        num_words = max(1, sum(not samples.is_mark(token) for token in other))
        changed: list[int] = []
        given = seen = 0
        for token in other:
            if not samples.is_mark(token):
                seen += 1
                continue
            upto = max(given, round(seen / num_words * len(words)))
            changed += [*words[given:upto], token]
            given = upto
        return self.around(text, [*changed, *words[given:]])


def plant_in_texts(
    samples: TextSamples, change: Change, donors: Tensor, region: Region | None, *, seed: int
) -> Planted:
    """How often something from another class turns a prediction into that class.

    The same is done with a donor of the text's own class, and its share is subtracted. Where that
    class has no donor, control words are planted at the places of the foreign donor.

    Args:
        samples: The audited texts; planting is on the second half.
        change: What is planted.
        donors: Places of the texts to take from.
        region: What examples mark.
        seed: Random seed for the donors.
    """
    if samples.reader is None or samples.answers is None:
        return Planted()
    stream = random_stream(seed, "audit", "donors")
    pools = {int(y): donors[samples.y[donors] == y] for y in torch.unique(samples.y[donors])}

    def draw(label: int) -> int:
        return int(pools[label][stream.integers(len(pools[label]))])

    drawn: list[tuple[int, int, int]] = []
    same: list[list[int]] = []
    for place in samples.recipients().tolist():
        own = int(samples.y[place])
        foreign = [label for label in pools if label != own]
        if not foreign:
            continue
        label = foreign[int(stream.integers(len(foreign)))]
        drawn.append((place, label, draw(label)))
        text = samples.texts[place]
        if own in pools:
            same.append(change.give(text, draw(own)))
        else:
            same.append(change.give_control(text, drawn[-1][2]))
    if len(drawn) < LEAST_RECIPIENTS:
        return Planted()
    after = [change.give(samples.texts[place], donor) for place, _, donor in drawn]
    answers, before = (_predict(samples, one) for one in (after, same))
    target = torch.tensor([label for _, label, _ in drawn])
    moved = (answers == target).double() - (before == target).double()
    effect = Effect.of(moved, seed=seed)
    for label in torch.unique(target).tolist():
        if int((target == label).sum()) >= LEAST_RECIPIENTS:
            effect.by_class[label] = Effect.of(moved[target == label], seed=seed)
    first = samples.answers[[place for place, _, _ in drawn]].argmax(dim=1)
    order = (first != answers).long().argsort(descending=True, stable=True)[:NUM_EXAMPLES]
    examples = tuple(
        TextExample(
            before=samples.mark(samples.texts[drawn[row][0]], region),
            after=samples.mark(after[row], region),
            donor=samples.mark(samples.texts[drawn[row][2]], region),
            label=int(samples.y[drawn[row][0]]),
            predicted=(int(first[row]), int(answers[row])),
        )
        for row in order.tolist()
    )
    if not change.has_control:
        return Planted(effect, examples)
    controls = [change.give_control(samples.texts[place], donor) for place, _, donor in drawn]
    share = (_predict(samples, controls) == target).double().mean()
    return Planted(effect, examples, float(share))


def remove_words(samples: TextSamples, masks: Tensor, *, seed: int) -> Effect | None:
    """How many right predictions removed words cost, beyond as many others of the text.

    Args:
        samples: The audited texts.
        masks: Where the words are, ``(N, T)``.
        seed: Random seed for the other words.
    """
    recipients = samples.recipients()
    recipients = recipients[masks[recipients].any(dim=1)]
    if samples.reader is None or len(recipients) < LEAST_RECIPIENTS:
        return None
    stream = random_stream(seed, "audit", "removal")
    gone, others = [], []
    for place in recipients.tolist():
        text, mask = samples.texts[place], masks[place]
        gone.append(without(text, mask) or text[:1])
        free = [at for at in samples.body(text) if not mask[at]]
        other = torch.zeros_like(mask)
        count = min(int(mask.sum()), len(free))
        other[stream.choice(free, size=count, replace=False) if count else []] = 1
        others.append(without(text, other) or text[:1])
    y = samples.y[recipients]
    right = [(_predict(samples, one) == y).double() for one in (others, gone)]
    return Effect.of(right[0] - right[1], seed=seed)


def without(text: list[int], mask: Tensor) -> list[int]:
    """A text without the tokens that a mask marks."""
    gone = mask[: len(text)].bool().tolist()
    return [token for token, drop in zip(text, gone, strict=True) if not drop]


def _predict(samples: TextSamples, texts: Sequence[list[int]]) -> Tensor:
    if samples.reader is None:
        raise InvalidSettingError("Expected a model to predict texts, but got none.")
    return ask(samples.reader, samples.pad(texts)).argmax(dim=1)
