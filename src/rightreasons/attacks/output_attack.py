"""What attacks on predictions have in common: balls, restarts, and dropping who is fooled."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from rightreasons.attacks.attacked import Attacked, Record
from rightreasons.attacks.ball import Ball, BallNorm
from rightreasons.attacks.output_loss import deployed_logits
from rightreasons.double_backward import innermost
from rightreasons.errors import InvalidBatchError
from rightreasons.setting import checked_number
from rightreasons.types import Batch

__all__ = ["OutputAttack", "checked_samples"]


def checked_samples(x: Tensor, y: Tensor, index: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """The samples, their labels and their numbers, checked as those of a `Batch` are.

    Args:
        x: ``(N, *S)``, floating point.
        y: ``(N,)``.
        index: ``(N,)``; 0, 1, ... if None.
    """
    batch = Batch(x=x, y=y, index=index)
    if not batch.x.is_floating_point():
        raise InvalidBatchError(
            f"Expected floating point `x` to move, but got {x.dtype}. Token ids cannot move."
        )
    places = torch.arange(len(batch), device=x.device)
    return batch.x.detach(), batch.y, places if batch.index is None else batch.index


class OutputAttack(ABC):
    """Looks for an input near each sample that the model gets wrong.

    The model is attacked as at test time and left as it was: no ``.grad``, statistic or mode
    changes. Inputs are in the data's units, so a model normalises them inside. A sample that is
    fooled once, perhaps where it stands, drops out of the batch. What is drawn for a sample
    depends on the seed and its number, never on its batch. A model that gives no number, at a
    sample or where the search goes, is an error: it neither stands nor falls.

    Args:
        epsilon: See `Ball`.
        norm: See `Ball`.
        num_restarts: How often to search each sample that is not fooled yet.
        valid_range: See `Ball`.
        seed: Of the draws.
        max_rows: The most samples that are attacked at once; None is no ceiling.
    """

    def __init__(
        self,
        *,
        epsilon: float,
        norm: BallNorm,
        num_restarts: int,
        valid_range: tuple[float, float] | None,
        seed: int,
        max_rows: int | None,
    ) -> None:
        self.ball = Ball(epsilon=epsilon, norm=norm, valid_range=valid_range)
        self.num_restarts = checked_number("num_restarts", num_restarts)
        self.seed = checked_number("seed", seed, low=0)
        self.max_rows = None if max_rows is None else checked_number("max_rows", max_rows)

    @abstractmethod
    def search(
        self, model: nn.Module, x: Tensor, y: Tensor, *, index: Tensor, run: int
    ) -> Attacked:
        """Search once around samples that are not fooled; ``run`` counts from 0."""

    def num_runs(self, num_classes: int) -> int:
        """How often to search a sample that is not fooled."""
        del num_classes
        return self.num_restarts

    def __call__(
        self, model: nn.Module, x: Tensor, y: Tensor, *, index: Tensor | None = None
    ) -> Attacked:
        """Attack the predictions of ``y`` at ``x``.

        Args:
            model: Gives logits ``(N, K)``.
            x: ``(N, *S)``, floating point.
            y: ``(N,)``: the labels.
            index: ``(N,)``: the samples' numbers, on which their draws depend; 0, 1, ... if None.
        """
        core, (x, y, index) = innermost(model), checked_samples(x, y, index)
        everyone = torch.arange(len(x), device=x.device)
        parts = [
            self._attacked(core, x[rows], y[rows], index[rows])
            for rows in torch.split(everyone, self.max_rows or max(1, len(x)))
        ]
        return Attacked(
            x=torch.cat([part.x for part in parts]),
            fooled=torch.cat([part.fooled for part in parts]),
            margin=torch.cat([part.margin for part in parts]),
        )

    def _attacked(self, model: nn.Module, x: Tensor, y: Tensor, index: Tensor) -> Attacked:
        logits, record = deployed_logits(model, x, y), Record(x)
        _refuse(~logits.isfinite().all(dim=1), index, "at")
        record.see(torch.arange(len(x), device=x.device), x, logits, y)
        found = record.result()
        for run in range(self.num_runs(logits.shape[1])):
            rows = (~found.fooled).nonzero().flatten()
            if not len(rows):
                break
            worse = self.search(model, x[rows], y[rows], index=index[rows], run=run)
            found = found.stronger(rows, worse)
        _refuse(found.margin.isnan(), index, "near")
        return found


def _refuse(bad: Tensor, index: Tensor, where: str) -> None:
    if bool(bad.any()):
        raise InvalidBatchError(
            f"Expected finite logits, but got NaN or infinity {where} {int(bad.sum())} of "
            f"{len(bad)} samples, first {where} sample {int(index[bad][0])}. Check the model's "
            "weights, and that its input gradients are finite too."
        )
