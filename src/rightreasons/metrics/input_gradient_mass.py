"""How much of the model's sensitivity lies where it must not look."""

from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidBatchError
from rightreasons.metrics.mass import mass_rows, mass_summary
from rightreasons.metrics.metric import Metric, Rows
from rightreasons.probe import Probe
from rightreasons.target import Target

__all__ = ["InputGradientMass"]


class InputGradientMass(Metric):
    r"""The share of the input gradient's magnitude inside the mask: the simplest reliance score.

    .. math:: \frac{\sum_d m_d \, |\partial_d t(x)|}{\sum_d |\partial_d t(x)|}

    averaged over samples whose mask is not empty and whose gradient is not zero. 0 is no reliance;
    a model that looks everywhere alike has the mask's share of the features, which is given beside
    it as ``input_gradient_mass/area``. ``input_gradient_mass/n`` is the number of samples. A model
    that is flat at every sample leans on nothing: it has 0, of 0 samples.

    Args:
        target: What is differentiated. The logit, not the loss: the loss of a sure model has
            gradients that vanish in floating point.
    """

    name = "input_gradient_mass"
    higher_is_better = False
    needs_gradient = True

    def __init__(self, *, target: Target | str = Target.LOGIT) -> None:
        super().__init__()
        self.target = Target(target)

    def prepare(self, data: Dataset) -> None:
        """Refuse data without masks."""
        if not data.has_masks:
            raise InvalidBatchError("Expected data with masks for InputGradientMass, but got none.")

    def measure(self, probe: Probe) -> Rows:
        """See `Metric.measure`."""
        return mass_rows(probe.gradient(self.target).abs(), probe.mask)

    def summary(self, rows: Rows) -> dict[str, float]:
        """See `Metric.summary`."""
        return mass_summary(rows)
