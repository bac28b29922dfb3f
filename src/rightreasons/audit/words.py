"""The audit of texts: words, pairs of words and properties that tell the label, each planted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rightreasons.audit.cause import name_class
from rightreasons.audit.findings import Finding, Thresholds
from rightreasons.audit.properties import predict_by_column
from rightreasons.audit.regions import Region
from rightreasons.audit.samples import TextSamples, Word
from rightreasons.audit.statistics import (
    against_others,
    best_of_classes,
    chance_of_best,
    class_weights,
    compare_with_permutations,
    presence_strengths,
)
from rightreasons.audit.text_planting import (
    Change,
    GiveLength,
    GiveMarks,
    GiveWords,
    Planted,
    choose_controls,
    plant_in_texts,
    remove_words,
    without,
)
from rightreasons.core.rng import random_stream
from rightreasons.explainers import InputTimesGradient
from rightreasons.probe.probe import move_to_model

__all__ = ["WordSearch"]

CHUNK = 100
MOST_PAIRED, MOST_ROUNDS, MOST_EXPLAINED = 300, 5, 400
TOGETHER = 0.9
"""Words whose presence is correlated this much are one shortcut, such as a name of two words."""
GAIN = 0.1
"""A pair must tell this much more than each of its words."""

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
Groups = dict[tuple[Word, ...], int]
"""Words that belong together, and the class that they tell."""


class WordSearch:
    """The search for shortcuts in texts; each step gives findings without verdicts.

    Args:
        samples: The audited texts.
        model: The model; None to look at the data alone.
        thresholds: Thresholds of the verdict.
        seed: Random seed.
    """

    def __init__(
        self, samples: TextSamples, model: nn.Module | None, *, thresholds: Thresholds, seed: int
    ) -> None:
        self.samples, self.model = samples, model
        self.thresholds, self.seed = thresholds, seed
        self.card = samples.card
        self.labels = samples.y[samples.search].numpy()
        self.known: list[int] = np.unique(self.labels).tolist()
        self.words, self.presence = samples.count_words(samples.search)
        self.strengths = presence_strengths(self.presence, self.labels)

    def families(self) -> list[list[Finding]]:
        """Search for words, pairs, properties of whole texts, and what the model looks at."""
        words, pairs = self.single_words(), self.pairs()
        return [self.properties([*words, *pairs]), words, pairs, self.attended(words)]

    def single_words(self) -> list[Finding]:
        """Words that tell a class, the best of each class together, and those that go with them."""
        strengths = self.strengths
        best = strengths.max(axis=0, initial=0.0)
        p_values = chance_of_best(
            best,
            lambda labels: presence_strengths(self.presence, labels),
            self.labels,
            seed=self.seed,
        )
        free = np.ones(len(self.words), dtype=bool)
        found = []
        for _ in range(MOST_ROUNDS):
            members = best_of_classes(strengths, free)
            if not members:
                break
            first = next(iter(members))
            for number in list(members):
                for other in self._companions(number, free):
                    members.setdefault(other, members[number])
            free[list(members)] = False
            groups: Groups = {
                (self.words[number],): self.known[label] for number, label in members.items()
            }
            found.append(
                replace(
                    self._describe(groups, "word"),
                    tells_label=float(best[first]),
                    p_value=float(p_values[first]),
                )
            )
        return found

    def pairs(self) -> list[Finding]:
        """Two words that tell a class where both are, though neither does alone."""
        some = np.argsort(-self.presence.sum(axis=0), kind="stable")[:MOST_PAIRED]
        if len(some) < 2:
            return []
        presence = self.presence[:, some].astype(np.float32)
        one, two = np.triu_indices(len(some), k=1)

        def measure(labels: Numbers) -> Floats:
            rates = [
                ((presence * weight[:, None].astype(np.float32)).T @ presence)[one, two]
                for weight in class_weights(labels)
            ]
            return against_others(np.stack(rates).astype(np.float64))

        alone = self.strengths.max(axis=0)[some]
        told = measure(self.labels)
        free = told.max(axis=0) >= np.maximum(alone[one], alone[two]) + GAIN
        members = best_of_classes(told, free)
        if not members:
            return []
        best = told.max(axis=0)
        first = next(iter(members))
        # Below half of the threshold nothing is told of a pair, and its p-value is not computed.
        is_strong = best[first] >= self.thresholds.strength / 2
        p_value = (
            float(chance_of_best(best[[first]], measure, self.labels, seed=self.seed)[0])
            if is_strong
            else 1.0
        )
        groups: Groups = {
            (self.words[some[one[number]]], self.words[some[two[number]]]): self.known[label]
            for number, label in members.items()
        }
        described = self._describe(groups, "word pair")
        return [replace(described, tells_label=float(best[first]), p_value=p_value)]

    def properties(self, known: Sequence[Finding]) -> list[Finding]:
        """Length, marks and capitals of whole texts.

        Args:
            known: Findings whose words are removed first if they tell the label: a planted mark
                would count twice.
        """
        samples = self.samples
        strong = [one for one in known if one.tells_label >= self.thresholds.strength]
        texts = [samples.texts[place] for place in samples.search.tolist()]
        for finding in strong:
            if finding.region is not None:
                masks = finding.region.locate(samples.pad(texts))
                texts = [without(text, mask) for text, mask in zip(texts, masks, strict=True)]
        measured = [samples.measure(text) for text in texts]
        values = {name: np.array([one[name] for one in measured]) for name in measured[0]}
        kept = {name: value for name, value in values.items() if np.ptp(value) > 0}
        if not kept:
            return []
        stream = random_stream(self.seed, "audit", "properties")
        y = samples.y[samples.search]
        predicted = [
            predict_by_column(value, y, stream=stream, seed=self.seed) for value in kept.values()
        ]
        strengths, p_values = compare_with_permutations(
            np.column_stack(predicted), self.labels, seed=self.seed
        )
        plants: dict[str, Change] = {
            "length": GiveLength(samples),
            "punctuation": GiveMarks(samples),
        }
        found = []
        for number, name in enumerate(kept):
            planted = Planted()
            if name in plants:
                planted = plant_in_texts(
                    samples, plants[name], samples.search, None, seed=self.seed
                )
            found.append(
                Finding(
                    name=name,
                    kind=name,
                    tells_label=float(strengths[number]),
                    p_value=float(p_values[number]),
                    effect=planted.effect,
                    classes=self.card.classes,
                    examples=planted.examples,
                )
            )
        return found

    def attended(self, known: Sequence[Finding]) -> list[Finding]:
        """The word of each class that adds most to its logit, unless it is known already."""
        samples = self.samples
        if self.model is None or samples.answers is None:
            return []
        places = {word: number for number, word in enumerate(self.words)}
        sums = np.zeros((samples.answers.shape[1], len(places)))
        counts = np.zeros(len(places))
        num = min(len(samples.search), MOST_EXPLAINED)
        some = samples.search[torch.linspace(0, len(samples.search) - 1, num).long()]
        for part in torch.split(some, CHUNK):
            batch = move_to_model(samples.data.take(samples.rows[part]), self.model)
            predicted = samples.answers[part].argmax(dim=1)
            explained = InputTimesGradient()(
                self.model, batch.x, predicted.to(batch.x.device), inputs=batch.inputs
            )
            heat = explained.flatten(2).sum(dim=2).cpu().double().numpy()
            for row, (place, label) in enumerate(
                zip(part.tolist(), predicted.tolist(), strict=True)
            ):
                for first, last in samples.spans(samples.texts[place]):
                    number = places.get(tuple(samples.texts[place][first:last]))
                    if number is not None:
                        sums[label, number] += heat[row, first:last].sum()
                        counts[number] += 1
        mean = sums / np.maximum(counts, 1)
        groups_known = [group for one in known if one.region for group in one.region.words]
        taken = {word for group in groups_known for word in group}
        free = np.array([word not in taken for word in self.words], dtype=bool) & (counts > 0)
        members = best_of_classes(mean, free)
        if not members:
            return []
        groups: Groups = {(self.words[number],): label for number, label in members.items()}
        return [self._describe(groups, "attended word")]

    def _describe(self, groups: Groups, kind: str) -> Finding:
        """Plant words, remove them, and describe them as a finding.

        Args:
            groups: Words that belong together, and the class that they tell.
            kind: Kind of the finding.
        """
        samples = self.samples
        region = Region("words", words=tuple(groups), starts=samples.starts)
        masks = region.locate(samples.pad(samples.texts))
        present = masks.any(dim=1)
        labels = sorted(set(groups.values()))
        tells = present & torch.isin(samples.y, torch.tensor(labels))
        planted, removal = Planted(), None
        if samples.reader is not None:
            controls = choose_controls(
                self.words,
                self.presence.sum(axis=0),
                self.strengths.max(axis=0),
                {word for group in groups for word in group},
            )
            change = GiveWords(samples, region, masks, controls)
            donors = samples.search[tells[samples.search]]
            planted = plant_in_texts(samples, change, donors, region, seed=self.seed)
            removal = remove_words(samples, masks, seed=self.seed)
        typical = [
            samples.mark(samples.texts[place], region)
            for label in labels
            for place in (present & (samples.y == label)).nonzero()[:1, 0].tolist()
        ]
        names = [" + ".join(f"“{samples.name(word)}”" for word in group) for group in groups]
        control = {} if planted.control is None else {"planted control words": planted.control}
        return Finding(
            name=", ".join(names),
            kind=kind,
            effect=planted.effect,
            removal=removal,
            prevalence=float(present.double().mean()),
            classes=tuple(name_class(self.card.classes, label) for label in labels),
            area=float(masks.sum()) / sum(map(len, samples.texts)),
            details=control,
            region=region,
            examples=planted.examples,
            pictures=typical[:6],
        )

    def _companions(self, number: int, free: NDArray[np.bool_]) -> list[int]:
        """Free words that are nearly always present together with a word."""
        own = self.presence[:, number]
        if own.min() == own.max():
            return []
        deviation = self.presence.std(axis=0)
        covariance = (own - own.mean()) @ (self.presence - self.presence.mean(axis=0)) / len(own)
        correlation = covariance / np.maximum(own.std() * deviation, 1e-12)
        near = np.flatnonzero((correlation >= TOGETHER) & free)
        return [int(one) for one in near if one != number]
