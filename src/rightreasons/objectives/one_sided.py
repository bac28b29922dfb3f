"""One-sided prediction: for each class a large set with few strangers in it."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor
from torch.nn import functional

from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidBatchError
from rightreasons.objectives.objective import Term
from rightreasons.probe import Probe
from rightreasons.setting import checked_factor

__all__ = ["OneSided"]


@final
class OneSided(Term):
    r"""Coverage of each class against false positives in it: one-sided prediction.

    .. math:: \frac{-\log p_y(x)}{K \pi_y}
              + \mu \sum_{k \ne y} \frac{-\log(1 - p_k(x))}{K (1 - \pi_k)}

    with :math:`\pi_k` the share of training samples of class k: the mean over samples is the mean
    over classes of the one-sided risks. Unit: nats. With classes of one size the first part is
    cross-entropy. The larger :math:`\mu`, the fewer errors among what is answered; a sample is
    answered where the largest probability reaches a threshold.

    Differs from the paper: its minimax program has a multiplier and a slack, priced at
    :math:`\mu`, for each class; at the saddle point every multiplier is :math:`\mu`, which gives
    the formula above, minimised here directly. The public code adds a second head with
    cross-entropy, and counts classes in each batch, not in the training data.

    Args:
        mu: Price of false positives; scanned in the paper, 0.5 and 1.67 in the public code.

    Example:
        >>> from torch import nn
        >>> from rightreasons.types import Batch
        >>> even = Batch(x=torch.zeros(1, 2), y=torch.tensor([0]))  # log 2 + log 2
        >>> OneSided(mu=1.0)(Probe(nn.Identity(), even))
        tensor([1.3863])

    References:
        gangrade2021selective
    """

    is_task = True
    frequency: Tensor

    def __init__(self, *, mu: float = 1.0) -> None:
        super().__init__()
        self.mu = checked_factor("mu", mu)
        self.register_buffer("frequency", torch.zeros(0))

    def prepare(self, data: Dataset, *, num_passes: int) -> None:
        """Count the classes; before, they are taken to be of one size."""
        del num_passes
        counts = torch.bincount(data.labels, minlength=len(data.card.classes))
        if bool((counts == len(data)).any()):
            raise InvalidBatchError(
                "Expected training samples of at least two classes for OneSided, but all are of "
                "one. Use data with more."
            )
        self.frequency = counts / counts.sum()

    def forward(self, probe: Probe) -> Tensor:
        """See `Term.forward`."""
        logits, y = probe.logits, probe.batch.y
        size = logits.shape[1]
        even = logits.new_full((size,), 1 / size)
        share = self.frequency.to(logits) if len(self.frequency) else even
        own = functional.one_hot(y, size).bool()
        strangers = (_kept_out(logits) / (1 - share)).masked_fill(own, 0).sum(dim=1)
        inside = functional.cross_entropy(logits, y, reduction="none") / share[y]
        return (inside + self.mu * strangers) / size


def _kept_out(logits: Tensor) -> Tensor:
    """The negative logarithm of 1 - p, ``(N, K)``; exact also where p rounds to 1."""
    top = functional.one_hot(logits.argmax(dim=1), logits.shape[1]).bool()
    rest = logits.masked_fill(top, -torch.inf).logsumexp(dim=1, keepdim=True)
    sure = logits.logsumexp(dim=1, keepdim=True) - rest
    small = functional.softmax(logits, dim=1).masked_fill(top, 0)  # at most a half
    return torch.where(top, sure, -torch.log1p(-small))
