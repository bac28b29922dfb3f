"""How often the model is right."""

import numpy as np

from rightreasons.metrics.interval import bootstrap_shares, percentile_interval
from rightreasons.metrics.metric import Metric, Rows
from rightreasons.probe import Probe

__all__ = ["Accuracy"]


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
