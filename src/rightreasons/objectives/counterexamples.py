"""Counterexamples: cross-entropy on copies whose masked features have other values."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from rightreasons.core.checks import check_fraction, check_integer
from rightreasons.core.rng import sample_noise
from rightreasons.datasets.dataset import Dataset
from rightreasons.datasets.replacement import Replacement, Source
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives.cross_entropy import CrossEntropy
from rightreasons.objectives.objective import Objective, Term
from rightreasons.objectives.recipe import recipe
from rightreasons.probe.probe import Probe
from rightreasons.types import Batch

__all__ = ["CounterExamples", "counterexamples"]

SHARE_SEED = 7919
FROM_SAMPLES: tuple[Source, ...] = ("auto", "samples", "pasted", "moved")


class CounterExamples(Term):
    r"""The cross-entropy on copies in which the masked features take other values.

    .. math:: -\log p(y \mid x'), \qquad x' = (1 - m) \odot x + m \odot z

    where :math:`z` comes from another sample, noise or the surroundings (`Replacement`). The label
    stays, so what is masked no longer tells it. By default only the copy is trained on, in the
    time of plain cross-entropy. With ``originals`` the loss is the mean over the original and its
    copy, and ``consistency`` adds a divergence between the two predictions,
    :math:`c \, \mathrm{KL}(p(x) \,\Vert\, p(x'))`. Originals and copies then share one pass, of
    twice the size. Unit: nats.

    Differs from the paper: Teso & Kersting ask a user for corrections, and add several copies of a
    sample to the training data. Here each pass draws a new copy.

    Args:
        source: What the masked features become, see `Replacement`.
        share: Share of samples that are replaced by their copy in each pass, in (0, 1].
        originals: Whether to train on the originals too.
        consistency: Weight of the divergence; needs ``originals``.
        draw_seed: Random seed for the copies.
        class_weights: One factor for each class; None is 1 for all.
        strata: Columns of a table in which the other sample has the same values, see `Replacement`.

    References:
        teso2019explanatory
    """

    is_task = True

    def __init__(
        self,
        *,
        source: Source = "auto",
        share: float = 1.0,
        originals: bool = False,
        consistency: float = 0.0,
        draw_seed: int = 0,
        class_weights: Sequence[float] | None = None,
        strata: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.source = source
        self.share = check_fraction("share", share)
        if not self.share:
            raise InvalidSettingError("Expected `share` above 0, but got 0. Use erm().")
        self.originals = originals
        self.consistency = float(consistency)
        if not 0 <= self.consistency < float("inf"):
            raise InvalidSettingError(
                "Expected `consistency` to be a finite number of at least 0, but got "
                f"{consistency}."
            )
        if self.consistency and not originals:
            raise InvalidSettingError(
                "Expected `originals` with `consistency`, which compares the original's prediction "
                "with that of its copy. Set originals=True."
            )
        self.draw_seed = check_integer("draw_seed", draw_seed, low=0)
        self.task = CrossEntropy(class_weights=class_weights)
        self.replacement = Replacement(source, seed=self.draw_seed, strata=strata)
        self.strata = (strata,) if isinstance(strata, str) else tuple(strata)
        if self.strata and source not in FROM_SAMPLES:
            raise InvalidSettingError(
                f"Expected `strata` with a source that takes other samples, but got {source!r}. "
                'Use source="samples".'
            )
        self.epoch = 0

    @property
    def class_weights(self) -> Tensor | None:
        """The factor of each class."""
        return self.task.class_weights

    @override
    def prepare(self, data: Dataset, *, num_passes: int) -> None:
        del num_passes
        self.replacement.prepare(data)

    @override
    def begin_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    @override
    def alter(self, batch: Batch) -> Batch:
        copies = self._copies(batch)
        if not self.originals:
            return batch.with_(x=copies)
        return batch.repeat(2).with_(x=torch.cat([batch.x, copies]))

    @override
    def forward(self, probe: Probe) -> Tensor:
        losses: Tensor = self.task(probe)
        if not self.consistency:
            return losses
        original, copy = functional.log_softmax(probe.logits, dim=1).chunk(2)
        divergence = functional.kl_div(copy, original, log_target=True, reduction="none").sum(dim=1)
        return losses + self.consistency * divergence.repeat(2)

    def _copies(self, batch: Batch) -> Tensor:
        copies = self.replacement(batch, epoch=self.epoch)
        if self.share == 1:
            return copies
        index = torch.arange(len(batch)) if batch.index is None else batch.index
        seed = SHARE_SEED * (self.draw_seed + 1) + self.epoch
        chosen = sample_noise(index, (), num_draws=1, seed=seed)[0].to(copies.device) < self.share
        return torch.where(chosen.reshape(-1, *[1] * (batch.x.ndim - 1)), copies, batch.x)


@recipe(CounterExamples)
def counterexamples(task: CounterExamples) -> Objective:
    """Counterexamples: train on copies whose masked features come from elsewhere.

    Example:
        >>> counterexamples().weights
        {'counter_examples': 1.0}
    """
    return task.as_objective()
