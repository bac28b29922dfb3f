"""SelectiveNet's loss: few errors among what is answered, and enough answers."""

from __future__ import annotations

from typing import final

from torch import Tensor
from torch.nn import functional

from rightreasons.errors import InvalidSettingError
from rightreasons.models.side_output import AUXILIARY, SELECTION
from rightreasons.objectives.side_term import SideTerm
from rightreasons.probe import Probe
from rightreasons.setting import checked_factor

__all__ = ["SelectiveNet"]


@final
class SelectiveNet(SideTerm):
    r"""The selective risk at a coverage, for a model with `SelectiveHeads`.

    .. math:: \alpha \Bigl( \frac{g_n \ell_n}{\bar g}
              + \lambda \max(0, c - \bar g)^2 \Bigr) + (1 - \alpha) \, \ell'_n

    where :math:`\ell_n` is the cross-entropy of the prediction, :math:`g_n` how much of the sample
    is selected, :math:`\bar g` its mean over the batch and :math:`\ell'_n` the cross-entropy of
    the auxiliary head. Unit: nats, beside which the middle part is a penalty. The mean over the
    batch is the paper's loss; a sample's value depends on its batch.

    In several processes each looks at its own part of the batch.

    Differs from the paper's public code, not from its text: the code does not divide by
    :math:`\bar g`, so that there selecting less lowers the first part by itself.

    Args:
        coverage: c, the share of samples to answer; the paper trains a net for each.
        weight: :math:`\lambda`; 32 in the paper and its code.
        alpha: Share of the selective part, the rest is the auxiliary head's; 0.5 in both.

    References:
        geifman2019selectivenet
    """

    is_task = True
    layers = (SELECTION, AUXILIARY)

    def __init__(self, *, coverage: float = 0.9, weight: float = 32.0, alpha: float = 0.5) -> None:
        super().__init__()
        self.coverage = _checked_part("coverage", coverage)
        self.weight = checked_factor("weight", weight)
        self.alpha = _checked_part("alpha", alpha)

    def forward(self, probe: Probe) -> Tensor:
        """See `Term.forward`."""
        y = probe.batch.y
        log_selected = functional.logsigmoid(self.recorded(probe, SELECTION)[:, 0])
        risk = functional.cross_entropy(probe.logits, y, reduction="none")
        weighed = len(y) * functional.softmax(log_selected, dim=0) * risk  # g / mean of g
        missing = (self.coverage - log_selected.exp().mean()).clamp(min=0).square()
        auxiliary = functional.cross_entropy(self.recorded(probe, AUXILIARY), y, reduction="none")
        return self.alpha * (weighed + self.weight * missing) + (1 - self.alpha) * auxiliary


def _checked_part(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise InvalidSettingError(
            f"Expected `{name}` to be a share above 0 and up to 1, but got {value!r}."
        )
    return float(value)
