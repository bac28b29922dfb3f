"""A weight that chooses itself, by comparing the gradients of penalty and task."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rightreasons.core.norms import gradient_norm

__all__ = ["AutoWeight", "Growing"]

logger = logging.getLogger("rightreasons")


class Growing:
    """A mix-in for terms that grow to their full size during training."""

    grown: float = 1.0
    """The factor by which the losses of the last pass were multiplied; 1 at full size."""


class AutoWeight(nn.Module):
    r"""The weight at which a penalty's gradient is as large as that of the task.

    .. math:: w = r \cdot \exp \frac1T \sum_{t=1}^{T}
              \log \frac{\lVert \nabla_\theta \ell_t \rVert}{\lVert \nabla_\theta P_t \rVert}

    over the first ``steps`` training steps, then fixed. During this warm-up the weight is the
    current estimate, so that every step has the penalty. Steps in which the penalty has no gradient
    (no mask in the batch) do not count. A penalty that grows to its weight (`Growing`) is measured
    at its full size. The state is part of the objective's ``state_dict``.

    Args:
        ratio: Size of the penalty's gradient relative to the task's; 1 is as large.
        steps: Length of the warm-up.
    """

    log_sum: Tensor
    count: Tensor

    def __init__(self, *, ratio: float = 1.0, steps: int = 20) -> None:
        super().__init__()
        self.ratio = ratio
        self.steps = steps
        self.register_buffer("log_sum", torch.zeros((), dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    @property
    def settled(self) -> bool:
        """Whether the warm-up is over."""
        return int(self.count) >= self.steps

    @property
    def value(self) -> float:
        """The current weight; 0 before the first step."""
        count = int(self.count)
        return self.ratio * math.exp(float(self.log_sum) / count) if count else 0.0

    def observe(
        self,
        task: Tensor,
        penalty: Tensor,
        parameters: Sequence[Tensor],
        num_samples: int,
        *,
        grown: float = 1.0,
    ) -> None:
        """Take one step's ratio into account.

        Args:
            task: The task's mean loss over this process's samples.
            penalty: The penalty's mean over the same samples.
            parameters: Tensors whose gradients are compared.
            num_samples: Number of samples in this process.
            grown: The penalty's factor in this step; it is measured as if that were 1.
        """
        task_norm = gradient_norm(task, parameters, num_samples)
        penalty_norm = gradient_norm(penalty, parameters, num_samples)
        if 0 < task_norm < math.inf and 0 < penalty_norm < math.inf:
            self.log_sum += math.log(task_norm) - math.log(penalty_norm) + math.log(grown)
            self.count += 1
            if self.settled:
                logger.info("An automatic weight is set to %.4g.", self.value)
