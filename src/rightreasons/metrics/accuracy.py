"""Accuracy, accuracy by group, and calibration error."""

import numpy as np
import torch

from rightreasons.core.checks import check_integer
from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidBatchError
from rightreasons.metrics.metric import Metric, Rows, bootstrap_shares, percentile_interval
from rightreasons.probe.probe import Probe

__all__ = ["Accuracy", "CalibrationError", "GroupAccuracy"]


class Accuracy(Metric):
    """The share of samples whose largest logit is the label's.

    Gives ``accuracy``, its 95 % bootstrap interval ``accuracy/low`` and ``accuracy/high``, and the
    number of samples ``accuracy/n``.
    """

    name = "accuracy"
    higher_is_better = True

    def measure(self, probe: Probe) -> Rows:
        """See `Metric.measure`."""
        return {"correct": probe.logits.argmax(dim=1) == probe.batch.y}

    def summary(self, rows: Rows) -> dict[str, float]:
        """See `Metric.summary`."""
        correct = rows["correct"]
        hits, total = np.array([int(correct.sum())]), np.array([len(correct)])
        low, high = percentile_interval(bootstrap_shares(hits, total)[:, 0])
        return {"": float(hits[0] / total[0]), "low": low, "high": high, "n": float(total[0])}


class GroupAccuracy(Metric):
    r"""Accuracy in each group, the average over groups, and the worst.

    With :math:`a_g` the accuracy in a group g that has samples (unknown groups do not count):

    ======================== ==========================================================
    ``average``              :math:`\frac1G \sum_g a_g`, every group alike (macro)
    ``worst``                :math:`\min_g a_g`
    ``weighted``             :math:`\sum_g n_g a_g / \sum_g n_g` with the *training* counts;
                             only where the data's card tells them
    ``NAME``, ``NAME/n``     :math:`a_g` and the number of samples of the group called NAME
    ``.../low``, ``.../high``  95 % bootstrap interval, resampled within groups
    ======================== ==========================================================

    A group without samples is left out of everything. The interval of ``worst`` is that of the
    minimum over groups, which may be another group in each draw; it is biased downward when
    several groups are about equally bad.

    Args:
        num_draws: Bootstrap samples.
        seed: Of the bootstrap.
    """

    name = "group_accuracy"
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

    def measure(self, probe: Probe) -> Rows:
        """See `Metric.measure`."""
        if probe.batch.group is None:
            raise InvalidBatchError(
                "Expected samples with a `group` for GroupAccuracy, but got none. Use data with "
                "groups, or Accuracy."
            )
        correct = probe.logits.argmax(dim=1) == probe.batch.y
        return {"correct": correct, "group": probe.batch.group}

    def summary(self, rows: Rows) -> dict[str, float]:
        """See `Metric.summary`."""
        known = rows["group"] >= 0
        group, correct = rows["group"][known], rows["correct"][known]
        if not len(group):
            raise InvalidBatchError("Expected a sample of a known group, but got none.")
        present = torch.unique(group)
        totals = np.array([int((group == g).sum()) for g in present])
        hits = np.array([int(correct[group == g].sum()) for g in present])
        shares = hits / totals
        drawn = bootstrap_shares(hits, totals, draws=self.num_draws, seed=self.seed)
        intervals = {"average": drawn.mean(axis=1), "worst": drawn.min(axis=1)}
        result = {"average": float(shares.mean()), "worst": float(shares.min())}
        if self._train_counts and len(self._train_counts) > int(present.max()):
            counts = np.array([self._train_counts[int(g)] for g in present], dtype=float)
            if counts.sum() > 0:
                result["weighted"] = float((counts * shares).sum() / counts.sum())
                intervals["weighted"] = drawn @ counts / counts.sum()
        for column, g in enumerate(present.tolist()):
            label = self._names[g] if g < len(self._names) else str(g)
            result[label], result[f"{label}/n"] = float(shares[column]), float(totals[column])
            intervals[label] = drawn[:, column]
        for label, values in intervals.items():
            result[f"{label}/low"], result[f"{label}/high"] = percentile_interval(values)
        return result


class CalibrationError(Metric):
    r"""The expected calibration error over bins of equal width.

    .. math:: \sum_b \frac{n_b}{N} \, | \mathrm{accuracy}_b - \mathrm{confidence}_b |

    where confidence is the probability of the predicted class.

    Args:
        num_bins: Of (0, 1], closed on the right.
    """

    name = "calibration_error"
    higher_is_better = False

    def __init__(self, *, num_bins: int = 15) -> None:
        super().__init__()
        self.num_bins = check_integer("num_bins", num_bins)

    def measure(self, probe: Probe) -> Rows:
        """See `Metric.measure`."""
        confidence, predicted = probe.logits.double().softmax(dim=1).max(dim=1)
        return {"confidence": confidence, "correct": predicted == probe.batch.y}

    def summary(self, rows: Rows) -> float:
        """See `Metric.summary`."""
        confidence, correct = rows["confidence"], rows["correct"].double()
        bins = (confidence * self.num_bins).ceil().long().clamp(1, self.num_bins) - 1
        gaps = torch.zeros(self.num_bins, dtype=torch.float64).index_add(
            0, bins, correct - confidence
        )
        return float(gaps.abs().sum() / len(confidence))
