"""What number of a prediction is explained: one enumeration for the whole library."""

from __future__ import annotations

from enum import StrEnum

import torch
from torch import Tensor
from torch.nn import functional

from rightreasons.errors import UnknownNameError

__all__ = ["Target"]


class Target(StrEnum):
    r"""The scalar :math:`t(x)` of a sample whose gradient is taken, bounded or attributed.

    ==================== ===================================================
    ``loss``             :math:`-\log p(y \mid x)`, the cross-entropy
    ``logit``            :math:`f_y(x)`
    ``log_probabilities`` :math:`\sum_k \log p(k \mid x)`, as Ross et al. 2017
    ``logsumexp``        :math:`\log \sum_k e^{f_k(x)}`, the log-density up to a constant
    ``margin``           :math:`f_y(x) - \max_{k \ne y} f_k(x)`
    ==================== ===================================================

    Calling a target with logits ``(N, K)`` and labels ``(N,)`` gives ``(N,)``. Wherever the
    library takes a target it also takes its name.

    Example:
        >>> Target("logit")(torch.tensor([[1.0, 3.0]]), torch.tensor([1]))
        tensor([3.])
    """

    LOSS = "loss"
    LOGIT = "logit"
    LOG_PROBABILITIES = "log_probabilities"
    LOGSUMEXP = "logsumexp"
    MARGIN = "margin"

    @classmethod
    def _missing_(cls, value: object) -> Target:
        raise UnknownNameError("target", str(value), [member.value for member in cls])

    def __call__(self, logits: Tensor, y: Tensor) -> Tensor:
        """Evaluate the target: logits ``(N, K)``, labels ``(N,)`` -> ``(N,)``."""
        match self:
            case Target.LOSS:
                return functional.cross_entropy(logits, y, reduction="none")
            case Target.LOGIT:
                return logits.gather(1, y[:, None]).squeeze(1)
            case Target.LOG_PROBABILITIES:
                return functional.log_softmax(logits, dim=1).sum(dim=1)
            case Target.LOGSUMEXP:
                return torch.logsumexp(logits, dim=1)
            case Target.MARGIN:
                own = logits.gather(1, y[:, None]).squeeze(1)
                others = logits.scatter(1, y[:, None], -torch.inf)
                return own - others.amax(dim=1)
