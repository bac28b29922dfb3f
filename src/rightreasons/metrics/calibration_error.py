"""Does the model know how sure it may be?"""

import torch

from rightreasons.metrics.metric import Metric, Rows
from rightreasons.probe import Probe
from rightreasons.setting import checked_number

__all__ = ["CalibrationError"]


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
        self.num_bins = checked_number("num_bins", num_bins)

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
