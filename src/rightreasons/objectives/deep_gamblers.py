"""Deep Gamblers: classes are horses, and the money may stay in the pocket."""

from __future__ import annotations

import math
from typing import final

import torch
from torch import Tensor
from torch.nn import functional

from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidSettingError
from rightreasons.models.side_output import ABSTENTION
from rightreasons.objectives.ramp import Ramp
from rightreasons.objectives.side_term import SideTerm
from rightreasons.probe import Probe
from rightreasons.setting import checked_share

__all__ = ["DeepGamblers"]


@final
class DeepGamblers(SideTerm):
    r"""The loss of a gambler who may keep a part of the money: Deep Gamblers.

    .. math:: -\log \Bigl( p_y(x) + \frac{p_{K+1}(x)}{o} \Bigr)

    where the last of K + 1 probabilities is that of abstaining, for a model that is `Abstaining`.
    Unit: nats. The smaller the reward o, the more is abstained: near 1 everything is, at the
    number of classes or above nothing need be. The paper's loss is this less :math:`\log o`, which
    has the same gradient; its public code has it as here.

    Args:
        reward: o, above 1; chosen on validation data in the paper, 2.2 in the public code unless
            one says otherwise.
        warm_up: Share of training with the cross-entropy of the K classes alone, without which a
            small reward lets nothing be learned. The public code has it for 100 of 300 epochs on
            CIFAR-10 if the reward is below 6.1, and else not at all.

    Example:
        >>> from torch import nn
        >>> from rightreasons.models import Abstaining
        >>> from rightreasons.types import Batch
        >>> even = Batch(x=torch.zeros(1, 3), y=torch.tensor([0]))  # 1/3 + 1/3 / 2 = 1/2
        >>> probe = Probe(Abstaining(nn.Identity()), even, layers=["all_logits"])
        >>> DeepGamblers(reward=2.0)(probe)
        tensor([0.6931])

    References:
        liu2019deep
    """

    is_task = True
    layers = (ABSTENTION,)

    def __init__(self, *, reward: float = 2.2, warm_up: float = 0.0) -> None:
        super().__init__()
        valid = isinstance(reward, int | float) and not isinstance(reward, bool)
        if not valid or not 1 < reward < math.inf:
            raise InvalidSettingError(
                f"Expected `reward` to be a finite number above 1, but got {reward!r}."
            )
        self.reward = float(reward)
        self.warm_up = checked_share("warm_up", warm_up)
        self.progress = Ramp(self.warm_up)

    def prepare(self, data: Dataset, *, num_passes: int) -> None:
        """See `Term.prepare`."""
        del data
        self.progress.prepare(num_passes)

    def forward(self, probe: Probe) -> Tensor:
        """See `Term.forward`."""
        y = probe.batch.y
        if self.progress.advanced() < 1:
            return functional.cross_entropy(probe.logits, y, reduction="none")
        logits = self.recorded(probe, ABSTENTION)
        won = logits.gather(1, y[:, None])[:, 0]
        kept = logits[:, -1] - math.log(self.reward)
        return logits.logsumexp(dim=1) - torch.logaddexp(won, kept)
