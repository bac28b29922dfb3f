"""Accuracy, accuracy by group, and calibration error."""

from __future__ import annotations

import numpy as np
import torch
from typing_extensions import override

from rightreasons.core.checks import check_integer
from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidBatchError
from rightreasons.metrics.metric import Metric, Rows, bootstrap_fractions, percentile_interval
from rightreasons.probe.probe import Probe

__all__ = ["Accuracy", "CalibrationError", "GroupAccuracy"]


class Accuracy(Metric):
    """The fraction of samples whose largest logit is the label's.

    Gives ``accuracy``, its 95 % bootstrap interval ``accuracy/low`` and ``accuracy/high``, and the
    number of samples ``accuracy/n``.
    """

    name = "accuracy"
    takes_texts = True
    higher_is_better = True

    @override
    def measure(self, probe: Probe) -> Rows:
        return {"correct": probe.logits.argmax(dim=1) == probe.batch.y}

    @override
    def summary(self, rows: Rows) -> dict[str, float]:
        correct = rows["correct"]
        hits, total = np.array([int(correct.sum())]), np.array([len(correct)])
        low, high = percentile_interval(bootstrap_fractions(hits, total)[:, 0])
        return {"": float(hits[0] / total[0]), "low": low, "high": high, "n": float(total[0])}


class GroupAccuracy(Metric):
    r"""Accuracy in each group, the average over groups, and the worst.

    With :math:`a_g` the accuracy in a group g that has samples (unknown groups do not count):

    ======================== ==========================================================
    ``average``              :math:`\frac1G \sum_g a_g`, every group alike (macro)
    ``worst``                :math:`\min_g a_g`
    ``weighted``             :math:`\sum_g n_g a_g / \sum_g n_g` with the *training* counts;
                             only where the data's card has them
    ``NAME``, ``NAME/n``     :math:`a_g` and the number of samples of the group called NAME
    ``.../low``, ``.../high``  95 % bootstrap interval, resampled within groups
    ======================== ==========================================================

    A group without samples is left out of everything. The interval of ``worst`` is that of the
    minimum over groups, which may be another group in each draw. It is biased downward when
    several groups are about equally bad.

    Args:
        num_draws: Number of bootstrap samples.
        seed: Random seed for the bootstrap.
    """

    name = "group_accuracy"
    takes_texts = True
    higher_is_better = True

    def __init__(self, *, num_draws: int = 1000, seed: int = 0) -> None:
        super().__init__()
        self.num_draws = check_integer("num_draws", num_draws)
        self.seed = seed
        self._names: tuple[str, ...] = ()
        self._train_counts: tuple[int, ...] = ()

    def prepare(self, data: Dataset) -> None:
        """Take the groups' names and training counts from the card."""
        if data.groups is None:
            raise InvalidBatchError(
                "Expected data with groups for GroupAccuracy, but got none. Use Accuracy."
            )
        self._names = data.card.groups
        self._train_counts = data.card.train_group_counts

    @override
    def measure(self, probe: Probe) -> Rows:
        if probe.batch.group is None:
            raise InvalidBatchError(
                "Expected samples with a `group` for GroupAccuracy, but got none. Use data with "
                "groups, or Accuracy."
            )
        correct = probe.logits.argmax(dim=1) == probe.batch.y
        return {"correct": correct, "group": probe.batch.group}

    @override
    def summary(self, rows: Rows) -> dict[str, float]:
        known = rows["group"] >= 0
        group, correct = rows["group"][known], rows["correct"][known]
        if not len(group):
            raise InvalidBatchError("Expected a sample of a known group, but got none.")
        present = torch.unique(group)
        totals = np.array([int((group == g).sum()) for g in present])
        hits = np.array([int(correct[group == g].sum()) for g in present])
        accuracies = hits / totals
        draws = bootstrap_fractions(hits, totals, draws=self.num_draws, seed=self.seed)
        result = {"average": float(accuracies.mean()), "worst": float(accuracies.min())}
        draws_by_name = {"average": draws.mean(axis=1), "worst": draws.min(axis=1)}
        if self._train_counts and len(self._train_counts) > int(present.max()):
            counts = np.array([self._train_counts[int(g)] for g in present], dtype=float)
            if counts.sum() > 0:
                result["weighted"] = float((counts * accuracies).sum() / counts.sum())
                draws_by_name["weighted"] = draws @ counts / counts.sum()
        for column, g in enumerate(present.tolist()):
            name = self._names[g] if g < len(self._names) else str(g)
            result[name], result[f"{name}/n"] = float(accuracies[column]), float(totals[column])
            draws_by_name[name] = draws[:, column]
        for name, values in draws_by_name.items():
            result[f"{name}/low"], result[f"{name}/high"] = percentile_interval(values)
        return result


class CalibrationError(Metric):
    r"""The expected calibration error over bins of equal width.

    .. math:: \sum_b \frac{n_b}{N} \, | \mathrm{accuracy}_b - \mathrm{confidence}_b |

    where confidence is the probability of the predicted class.

    Args:
        num_bins: Number of bins of (0, 1], closed on the right.
    """

    name = "calibration_error"
    takes_texts = True
    higher_is_better = False

    def __init__(self, *, num_bins: int = 15) -> None:
        super().__init__()
        self.num_bins = check_integer("num_bins", num_bins)

    @override
    def measure(self, probe: Probe) -> Rows:
        confidence, predicted = probe.logits.double().softmax(dim=1).max(dim=1)
        return {"confidence": confidence, "correct": predicted == probe.batch.y}

    @override
    def summary(self, rows: Rows) -> float:
        confidence, correct = rows["confidence"], rows["correct"].double()
        bins = (confidence * self.num_bins).ceil().long().clamp(1, self.num_bins) - 1
        gaps = torch.zeros(self.num_bins, dtype=torch.float64).index_add(
            0, bins, correct - confidence
        )
        return float(gaps.abs().sum() / len(confidence))
