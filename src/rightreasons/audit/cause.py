"""Does the model use it? Plant it elsewhere, take it away, and compare with controls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rightreasons.core.memory import rows_within_budget
from rightreasons.core.model_modes import innermost, test_time_mode
from rightreasons.core.outputs import checked_logits
from rightreasons.core.rng import random_stream
from rightreasons.errors import InvalidBatchError
from rightreasons.metrics.exchange import remove_masked
from rightreasons.metrics.metric import bootstrap_means, percentile_interval
from rightreasons.probe.embeddings import call_model
from rightreasons.probe.probe import move_to_model
from rightreasons.types import Batch

__all__ = [
    "Effect",
    "Example",
    "ask",
    "check_answers",
    "name_class",
    "plant_effect",
    "removal_effect",
    "swap_effect",
]

LEAST_RECIPIENTS = 10
NUM_EXAMPLES = 4
CHUNK = 100

Take = Callable[[Tensor], Batch]
Locate = Callable[[Tensor], Tensor]
Alter = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Effect:
    """An effect on predictions, with its 95 % bootstrap interval over samples.

    Args:
        value: The effect, from -1 to 1.
        low: Lower end of the interval.
        high: Upper end of the interval.
        num: Number of samples.
        by_class: The same effect for each class that predictions moved to.
    """

    value: float
    low: float
    high: float
    num: int
    by_class: dict[int, Effect] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Tensor, *, seed: int) -> Effect:
        """The mean of values, one for each sample."""
        low, high = percentile_interval(bootstrap_means(values.double().numpy(), seed=seed))
        return cls(float(values.double().mean()), low, high, len(values))

    def to_record(self, classes: Sequence[str]) -> dict[str, Any]:
        """Plain values, with class names."""
        record: dict[str, Any] = {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "num": self.num,
        }
        if self.by_class:
            record["by_class"] = {
                classes[label]: one.to_record(classes) for label, one in self.by_class.items()
            }
        return record


@dataclass(frozen=True)
class Example:
    """A sample before and after planting.

    Args:
        before: The sample.
        after: The altered sample.
        donor: The sample that it was taken from.
        label: Label of the sample.
        predicted: Predicted class before and after.
    """

    before: Tensor
    after: Tensor
    donor: Tensor
    label: int
    predicted: tuple[int, int]


def name_class(classes: Sequence[str], number: int) -> str:
    """The name of a predicted class; a model may have more outputs than the data have classes.

    Example:
        >>> name_class(["cat", "dog"], 1), name_class(["cat", "dog"], 2)
        ('dog', 'output 2')
    """
    return classes[number] if number < len(classes) else f"output {number}"


@torch.no_grad()
def check_answers(model: nn.Module, batch: Batch) -> None:
    """Raise unless a model gives logits, two or more, with one for each label of a batch."""
    moved = move_to_model(batch, model)
    with test_time_mode(innermost(model)):
        logits = call_model(innermost(model), moved.x, moved.inputs)
    if isinstance(logits, Tensor) and logits.shape[1:] == (1,):
        raise InvalidBatchError(
            "Expected a model with two outputs or more, but it gives one for each sample. Give a "
            "binary model two, as in `torch.cat([-logit, logit], dim=1) / 2`."
        )
    checked_logits(logits, batch.y.cpu(), in_training=False)


@torch.no_grad()
def ask(model: nn.Module, x: Tensor) -> Tensor:
    """The probabilities ``(N, K)`` that a model gives, as at test time, on the processor."""
    first = next(model.parameters(), None)
    device = x.device if first is None else first.device
    most = rows_within_budget(model, x[:1].to(device), "values", ceiling=len(x))
    with test_time_mode(model):
        logits = [model(part.to(device)).double().cpu() for part in torch.split(x, most)]
    return torch.cat(logits).softmax(dim=1)


def swap_effect(
    model: nn.Module,
    take: Take,
    alter: Alter,
    *,
    recipients: Tensor,
    donors: Tensor,
    labels: Tensor,
    seed: int,
    advance: Callable[[int], None],
) -> tuple[Effect | None, list[Example]]:
    """How often something from another class turns a prediction into that class.

    T is the share of predictions that become the donor's class, less the share that become the
    same class if the donor has the recipient's own class. All else is the same for both.

    Args:
        model: The model.
        take: Function from rows to a batch.
        alter: Function from recipients and the rows of recipients and donors to altered samples.
        recipients: Rows of the samples to alter.
        donors: Rows of the samples to take from.
        labels: Labels of all rows.
        seed: Random seed for the donors.
        advance: Function that is told the number of finished samples.

    Returns:
        The effect, None with too few samples; and some examples.
    """
    stream = random_stream(seed, "audit", "donors")
    pools = {int(y): donors[labels[donors] == y] for y in torch.unique(labels[donors])}
    rows, others, same = [], [], []
    for row in recipients.tolist():
        foreign = [label for label in pools if label != int(labels[row])]
        if not foreign:
            continue
        rows.append(row)
        others.append(_draw(pools[foreign[stream.integers(len(foreign))]], stream))
        own = pools.get(int(labels[row]))
        same.append(-1 if own is None else _draw(own, stream))
    if len(rows) < LEAST_RECIPIENTS:
        return None, []
    kept, other, own_donor = (torch.tensor(one) for one in (rows, others, same))
    moved: list[Tensor] = []
    examples: list[Example] = []
    for part in torch.split(torch.arange(len(kept)), CHUNK):
        batch = take(kept[part])
        target = labels[other[part]]
        after = alter(batch.x, kept[part], other[part])
        answers = ask(model, after)
        # Where its class has nothing to give, the control is the sample as it was.
        has_own = own_donor[part] >= 0
        control = batch.x.clone()
        if bool(has_own.any()):
            control[has_own] = alter(
                batch.x[has_own], kept[part][has_own], own_donor[part][has_own]
            )
        became = (answers.argmax(dim=1) == target).double()
        moved.append(became - (ask(model, control).argmax(dim=1) == target).double())
        if len(examples) < NUM_EXAMPLES:
            examples += _examples(model, take, batch, after, other[part], answers)
        advance(len(part))
    values = torch.cat(moved)
    effect = Effect.of(values, seed=seed)
    targets = labels[other]
    for label in torch.unique(targets).tolist():
        if int((targets == label).sum()) >= LEAST_RECIPIENTS:
            effect.by_class[label] = Effect.of(values[targets == label], seed=seed)
    return effect, examples[:NUM_EXAMPLES]


def plant_effect(
    model: nn.Module, take: Take, locate: Locate, **settings: Any
) -> tuple[Effect | None, list[Example]]:
    """Plant a region of donors on samples whose own region was removed; see `swap_effect`.

    Args:
        model: The model.
        take: Function from rows to a batch.
        locate: Function from rows to soft masks ``(n, 1, H, W)`` of the region.
        settings: What `swap_effect` takes.
    """

    def alter(x: Tensor, rows: Tensor, donors: Tensor) -> Tensor:
        cleared = remove_masked(x, locate(rows))
        return torch.lerp(cleared, take(donors).x, locate(donors).expand_as(x))

    return swap_effect(model, take, alter, **settings)


def removal_effect(
    model: nn.Module,
    take: Take,
    locate: Locate,
    *,
    rows: Tensor,
    seed: int,
    advance: Callable[[int], None],
) -> Effect | None:
    """How many right predictions a removed region costs, beyond a random one of equal size.

    Args:
        model: The model.
        take: Function from rows to a batch.
        locate: Function from rows to soft masks ``(n, 1, H, W)`` of the region.
        rows: Rows of samples that have the region and are predicted right.
        seed: Random seed for the other places.
        advance: Function that is told the number of finished samples.
    """
    if len(rows) < LEAST_RECIPIENTS:
        return None
    stream = random_stream(seed, "audit", "removal")
    lost = []
    for part in torch.split(rows, CHUNK):
        batch, mask = take(part), locate(part)
        elsewhere = torch.stack([_move(one, stream) for one in mask])
        right = [
            (ask(model, remove_masked(batch.x, one)).argmax(dim=1) == batch.y).double()
            for one in (mask, elsewhere)
        ]
        lost.append(right[1] - right[0])
        advance(len(part))
    return Effect.of(torch.cat(lost), seed=seed)


def _move(mask: Tensor, stream: np.random.Generator) -> Tensor:
    """Move a mask ``(1, H, W)`` to a random place, around the edges."""
    shifts = [int(stream.integers(1, max(2, size))) for size in mask.shape[1:]]
    return torch.roll(mask, shifts, dims=(1, 2))


def _draw(rows: Tensor, stream: np.random.Generator) -> int:
    return int(rows[stream.integers(len(rows))])


def _examples(
    model: nn.Module, take: Take, batch: Batch, after: Tensor, donors: Tensor, answers: Tensor
) -> list[Example]:
    """Samples whose predictions changed, if there are any."""
    before = ask(model, batch.x).argmax(dim=1)
    changed = (before != answers.argmax(dim=1)).long()
    chosen = changed.argsort(descending=True, stable=True)[:NUM_EXAMPLES]
    given = take(donors[chosen]).x
    return [
        Example(
            before=batch.x[row],
            after=after[row],
            donor=given[number],
            label=int(batch.y[row]),
            predicted=(int(before[row]), int(answers[row].argmax())),
        )
        for number, row in enumerate(chosen.tolist())
    ]
