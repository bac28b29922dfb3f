"""Groups of runs: the seeds of one method, and the methods on one data set."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from rightreasons.datasets import Card
from rightreasons.report.estimate import Estimate, estimate_measure
from rightreasons.report.record import Record
from rightreasons.report.wording import format_value, settings
from rightreasons.run.config import AS_IT_IS

__all__ = ["BASELINE", "Method", "Section", "group_records"]

BASELINE = "erm"
NUM_COLOURS = 8


@dataclass(frozen=True, eq=False)
class Method:
    """Runs that differ in their seed alone.

    Args:
        label: A short name, different from those of the other methods beside it.
        records: One run for each seed, in the order of the seeds.
        repeated: Further runs of the same seed, which do not count.
        colour: Number of its colour in charts; 0 is the baseline's.
    """

    label: str
    records: tuple[Record, ...]
    repeated: tuple[Record, ...] = ()
    colour: int = 0

    @property
    def first(self) -> Record:
        """The run of the smallest seed."""
        return self.records[0]

    @property
    def recipe(self) -> str:
        """Name of the recipe, with that of the strategy if there is one."""
        strategy = self.first.results.get("strategy")
        recipe = str(self.first.results["recipe"])
        return f"{recipe} + {strategy}" if strategy else recipe

    @property
    def is_baseline(self) -> bool:
        """Whether it is a model without a method: trained plainly, or taken as it is."""
        return self.recipe in (BASELINE, AS_IT_IS)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds in order."""
        return tuple(record.seed for record in self.records)

    @property
    def learned(self) -> bool:
        """Whether every seed learned."""
        return all(record.learned for record in self.records)

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        """Names of the groups with test samples, in the card's order if it knows them."""
        start, end = "group_accuracy/", "/n"
        keys = [key for record in self.records for key in record.metrics()]
        names = dict.fromkeys(k[len(start) : -len(end)] for k in keys if _is_size(k, start, end))
        order = {name: position for position, name in enumerate(self.first.card.groups)}
        return tuple(sorted(names, key=lambda name: order.get(name, len(order))))

    @cached_property
    def facts(self) -> Mapping[str, object]:
        """All settings of the method except the recipe, by name."""
        first, config = self.first, self.first.config
        return {
            "model": first.results["model"],
            **first.part("settings"),
            **{f"strategy {name}": v for name, v in first.part("strategy_settings").items()},
            **{f"model {name}": value for name, value in first.part("model_settings").items()},
            **first.part("training"),
            "select": first.part("selection").get("used", "none"),
            "precision": config.precision,
            "frozen_statistics": config.frozen_statistics,
        }

    def estimate(self, key: str, part: str = "test") -> Estimate | None:
        """A measure over the seeds; None if no seed has it."""
        return estimate_measure([record.metrics(part) for record in self.records], key)


@dataclass(frozen=True, eq=False)
class Section:
    """The methods on one data set.

    Args:
        title: Name of the data set, with its settings if it has any.
        methods: The baseline first, then in the order in which their runs were given.
    """

    title: str
    methods: tuple[Method, ...]

    @property
    def card(self) -> Card:
        """The card of the data set."""
        return self.methods[0].first.card

    @property
    def records(self) -> tuple[Record, ...]:
        """All runs that count."""
        return tuple(record for method in self.methods for record in method.records)


def group_records(records: Sequence[Record]) -> list[Section]:
    """Group runs on the same data, and within them the seeds of the same method."""
    groups: list[tuple[str, dict[object, object], list[Record]]] = []
    for record in records:
        key, seed, digest = _data_key(record), record.data_seed, record.results.get("data_sha256")
        for other, digests, members in groups:
            # With the same seed the same data set has the same hash; if not, it is another one.
            if other == key and digests.setdefault(seed, digest) == digest:
                members.append(record)
                break
        else:
            groups.append((key, {seed: digest}, [record]))
    sections = [Section(_title(members[0]), _methods(members)) for *_, members in groups]
    return _number_titles(sections)


def _methods(records: Iterable[Record]) -> tuple[Method, ...]:
    grouped: dict[str, list[Record]] = {}
    for record in records:
        method = Method("", (record,))
        key = json.dumps([method.recipe, method.facts], sort_keys=True, default=str)
        grouped.setdefault(key, []).append(record)
    methods = []
    for members in grouped.values():
        by_seed: dict[int, Record] = {}
        repeated = tuple(r for r in members if by_seed.setdefault(r.seed, r) is not r)
        methods.append(Method("", tuple(by_seed[seed] for seed in sorted(by_seed)), repeated))
    methods.sort(key=lambda method: not method.is_baseline)
    shift = 0 if methods[0].is_baseline else 1
    return tuple(
        replace(method, label=_label(method, methods), colour=(position + shift) % NUM_COLOURS)
        for position, method in enumerate(methods)
    )


def _label(method: Method, methods: Sequence[Method]) -> str:
    """The recipe, and the settings in which it differs from others of the same recipe."""
    alike = [other for other in methods if other.recipe == method.recipe]
    differing = {
        name: value
        for name, value in method.facts.items()
        if any(other.facts.get(name, _ABSENT) != value for other in alike)
    }
    models = {str(other.facts["model"]) for other in methods}
    shown = {name: value for name, value in differing.items() if name != "model"}
    words = [str(method.facts["model"])] if len(models) > 1 else []
    words += [f"{name}={format_value(value)}" for name, value in shown.items()]
    name = "the original" if method.recipe == AS_IT_IS else method.recipe
    return f"{name} ({', '.join(words)})" if words else name


_ABSENT = object()


def _is_size(key: str, start: str, end: str) -> bool:
    return key.startswith(start) and key.endswith(end) and len(key) > len(start) + len(end)


def _data_key(record: Record) -> str:
    card = replace(record.card, train_group_counts=())  # the counts follow the seed
    parts: list[Any] = [record.results["data"], _data_settings(record), str(card)]
    return json.dumps(parts, sort_keys=True, default=str)


def _data_settings(record: Record) -> dict[str, Any]:
    return {name: v for name, v in record.part("data_settings").items() if name != "seed"}


def _title(record: Record) -> str:
    listed = settings(_data_settings(record))
    return f"{record.card.name} ({listed})" if listed else record.card.name


def _number_titles(sections: list[Section]) -> list[Section]:
    """Number the titles of sections whose data sets have the same name."""
    times, seen = Counter(section.title for section in sections), Counter[str]()
    result = []
    for section in sections:
        seen[section.title] += 1
        number = f", data {seen[section.title]}" if times[section.title] > 1 else ""
        result.append(replace(section, title=section.title + number))
    return result
