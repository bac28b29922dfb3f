"""The task, given to an attention branch as well."""

from __future__ import annotations

from typing import final

from torch import Tensor
from torch.nn import functional

from rightreasons.objectives.attention_term import AttentionTerm
from rightreasons.probe import Probe

__all__ = ["AttentionCrossEntropy"]


@final
class AttentionCrossEntropy(AttentionTerm):
    r"""The cross-entropy of an attention branch's own logits.

    .. math:: -\log p_\mathrm{att}(y \mid x)

    Unit: nats. It makes the branch, and so the attention map, see what tells the classes.

    References:
        fukui2019attention
    """

    layers = ("attention_logits",)

    def forward(self, probe: Probe) -> Tensor:
        """See `Term.forward`."""
        logits = self.recorded(probe).to(probe.logits.dtype)
        return functional.cross_entropy(logits, probe.batch.y, reduction="none")
