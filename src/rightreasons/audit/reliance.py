"""Reliance on what masks mark: swapped between samples, blurred and attacked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rightreasons.attacks import worst_value
from rightreasons.audit.cause import Effect
from rightreasons.core.rng import drawn_from
from rightreasons.datasets.dataset import Card, Dataset
from rightreasons.datasets.wrappers import cover, select
from rightreasons.metrics import SwapAccuracy
from rightreasons.metrics.exchange import remove_masked
from rightreasons.probe.probe import Probe, move_to_model
from rightreasons.types import Batch, Target

__all__ = ["measure_reliance"]

MOST_SAMPLES = 300
CHUNK = 50
NUM_DRAWS, NUM_STEPS = 3, 10
WAYS = ("swapped", "blurred", "attacked")
LEAST_MEMBERS = 5


def measure_reliance(
    model: nn.Module, data: Dataset, rows: Tensor, *, seed: int
) -> dict[str, Any] | None:
    """Measure what a model loses when the masked part is swapped, blurred or attacked.

    Args:
        model: The model.
        data: Samples with masks.
        rows: Rows of the audited samples; at most 300 of them are measured.
        seed: Random seed for the draws.

    Returns:
        For each way the lost share of right predictions with its interval, the share of changed
        predictions, and the loss in each class and group. ``attribution`` is the share of the input
        gradient inside the mask, ``area`` the share of the input that masks cover. None if no
        sample has a mask.
    """
    some = rows[torch.linspace(0, len(rows) - 1, min(len(rows), MOST_SAMPLES)).long()]
    chosen = select(data, some)
    swap = SwapAccuracy(num_draws=NUM_DRAWS, seed=seed)
    swap.prepare(chosen)
    if not swap.num_masked:
        return None
    parts: list[dict[str, Tensor]] = []
    with drawn_from(seed, 17):
        for places in torch.split(torch.arange(len(chosen)), CHUNK):
            batch = move_to_model(chosen.take(places), model)
            keep = batch.mask is not None and batch.mask.flatten(1).any(dim=1)
            if isinstance(keep, bool) or not bool(keep.any()):
                continue
            parts.append(_measure(model, batch[keep], swap, data.card))
    columns = {name: torch.cat([one[name] for one in parts]) for name in parts[0]}
    card = data.card
    measured: dict[str, Any] = {
        "num": len(columns["y"]),
        "area": float(columns["area"].mean()),
        "attribution": Effect.of(columns["attribution"], seed=seed).to_record(card.classes),
    }
    for way in WAYS:
        lost = columns[f"{way} lost"]
        measured[way] = {
            "lost": Effect.of(lost, seed=seed).to_record(card.classes),
            "changed": Effect.of(columns[f"{way} changed"], seed=seed).to_record(card.classes),
            "classes": _by_name(lost, columns["y"], card.classes, seed),
            "groups": _by_name(lost, columns["group"], card.groups, seed),
        }
    return measured


def _measure(model: nn.Module, batch: Batch, swap: SwapAccuracy, card: Card) -> dict[str, Tensor]:
    probe = Probe.at_test_time(model, batch, needs_gradient=True, create_graph=False)
    before = probe.logits.detach().argmax(dim=1)
    x, mask = probe.features.detach(), probe.mask
    size = probe.gradient(Target.LOGIT).detach().abs()
    inside = (size * mask.expand_as(size)).flatten(1).sum(dim=1)
    masked = Probe.at_test_time(model, batch, needs_gradient="inside", create_graph=False).masked
    if card.text is None or batch.mask is None:
        box = masked.box(None, card.valid_range)
    else:  # embeddings move among those of the word list, or of the masked words
        box = masked.substitute_box(card.text.substitutes or batch.x[batch.mask > 0].tolist())
    point, _ = worst_value(masked, box, num_steps=NUM_STEPS)
    with torch.no_grad():
        gone = cover(x, mask, "blur") if x.ndim == 4 else remove_masked(x, mask, x.mean(dim=0))
        after = {
            "swapped": probe.each_at(
                swap.alter(probe), lambda at: at.logits.argmax(dim=1), needs_gradient=False
            ),
            "blurred": probe.at(gone).logits.argmax(dim=1)[None],
            "attacked": masked.at(point).logits.argmax(dim=1)[None],
        }
    group = torch.full_like(batch.y, -1) if batch.group is None else batch.group
    columns = {
        "y": batch.y,
        "group": group,
        "area": mask.expand_as(x).flatten(1).double().mean(dim=1),
        "attribution": (inside / size.flatten(1).sum(dim=1).clamp(min=1e-12)).double(),
    }
    right = (before == batch.y).double()
    for way, predicted in after.items():
        columns[f"{way} lost"] = right - (predicted == batch.y).double().mean(dim=0)
        columns[f"{way} changed"] = (predicted != before).double().mean(dim=0)
    return {name: column.detach().cpu() for name, column in columns.items()}


def _by_name(values: Tensor, numbers: Tensor, names: Sequence[str], seed: int) -> dict[str, Any]:
    """The effect among the members of each class or group."""
    effects = {}
    for number in torch.unique(numbers[numbers >= 0]).tolist():
        inside = numbers == number
        if int(inside.sum()) >= LEAST_MEMBERS:
            name = names[number] if number < len(names) else str(number)
            effects[name] = Effect.of(values[inside], seed=seed).to_record(names)
    return effects
