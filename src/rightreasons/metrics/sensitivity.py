"""Substitution sensitivity: how often an exchange of what is masked changes the prediction."""

from __future__ import annotations

from typing import Literal, final

from typing_extensions import override

from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidBatchError
from rightreasons.metrics.metric import (
    Metric,
    Rows,
    bootstrap_means,
    check_prepared,
    percentile_interval,
    refuse_without_masks,
)
from rightreasons.metrics.swap_accuracy import SwapAccuracy
from rightreasons.probe.probe import Probe

__all__ = ["SubstitutionSensitivity"]


@final
class SubstitutionSensitivity(Metric):
    r"""How often a prediction changes when masked words, columns or pixels are exchanged.

    .. math:: \Pr[\hat y(x') \ne \hat y(x)]

    over annotated samples and draws, with :math:`x'` as in `SwapAccuracy`. It needs no labels: a
    model that is wrong in both cases counts as insensitive. ``/low`` and ``/high`` are a 95 %
    interval over samples. 0 is no reliance.

    Args:
        source: What masked features become, see `SwapAccuracy`. With ``"uniform"``, words of the
            data's word list.
        num_draws: Number of times each sample is altered.
        seed: Random seed for the draws.
    """

    name = "substitution_sensitivity"
    takes_texts = True
    higher_is_better = False

    def __init__(
        self,
        *,
        source: Literal["auto", "samples", "uniform", "pasted"] = "auto",
        num_draws: int = 5,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.source, self.num_draws, self.seed = source, num_draws, seed
        self._data: Dataset | None = None
        self._swap = SwapAccuracy(source=source, num_draws=num_draws, seed=seed)

    def prepare(self, data: Dataset) -> None:
        """Look at the masks, and draw the donors of every sample."""
        refuse_without_masks(self, data)
        self._data = data
        self._swap.prepare(data)

    @override
    def measure(self, probe: Probe) -> Rows:
        check_prepared(self, self._data, probe.batch.index)
        predicted = probe.logits.argmax(dim=1)
        after = probe.each_at(
            self._swap.alter(probe), lambda at: at.logits.argmax(dim=1), needs_gradient=False
        )
        annotated = probe.batch.annotated
        return {
            "flips": (after != predicted).double().mean(dim=0),
            "counts": predicted >= 0 if annotated is None else annotated,
        }

    @override
    def summary(self, rows: Rows) -> dict[str, float]:
        counts = rows["counts"]
        if not bool(counts.any()):
            raise InvalidBatchError(
                "Expected an annotated sample for SubstitutionSensitivity, but got none."
            )
        flips = rows["flips"][counts]
        low, high = percentile_interval(bootstrap_means(flips.numpy(), seed=self.seed))
        return {"": float(flips.mean()), "low": low, "high": high}
