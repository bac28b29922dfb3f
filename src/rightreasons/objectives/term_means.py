"""Means of terms over the samples of a pass, and the order that needs the least memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rightreasons.errors import InvalidSettingError
from rightreasons.mode import Statistics, with_statistics
from rightreasons.objectives.settled import settled
from rightreasons.probe import Probe

if TYPE_CHECKING:
    from rightreasons.objectives.objective import Term

__all__ = ["frugal_means", "term_means"]


def frugal_means(
    terms: Mapping[str, Term], probe: Probe, stops: list[Tensor] | None, before: Statistics
) -> dict[str, Tensor]:
    """Means of all terms; where penalties have passes of their own, the task's graph goes first.

    These passes see the statistics from before the task's pass moved them, if any are given.
    """
    penalties = {name: one for name, one in terms.items() if one.needs_gradient}
    first = {name: one for name, one in terms.items() if name not in penalties}
    scaled = torch.is_autocast_enabled(probe.logits.device.type)  # small gradients would vanish
    with with_statistics(before):
        leaves = [one.leaves(probe) for one in penalties.values()] if probe.create_graph else []
    means = term_means(first, probe)
    if leaves and all(leaves) and stops is not None and not scaled:
        means = settled(means, stops)
        probe.logits = probe.logits.detach()  # the last that holds the graph
        probe.activations = {name: one.detach() for name, one in probe.activations.items()}
    with with_statistics(before):
        return {**means, **term_means(penalties, probe)}


def term_means(terms: Mapping[str, Term], probe: Probe) -> dict[str, Tensor]:
    """Of each term's losses over the samples of a pass."""
    means = {}
    for name, term in terms.items():
        losses = term(probe)
        if losses.shape != (len(probe.batch),):
            raise InvalidSettingError(
                f"Expected the term {name!r} to give one loss a sample, ({len(probe.batch)},), but "
                f"got shape {tuple(losses.shape)}."
            )
        means[name] = losses.mean()
    return means
