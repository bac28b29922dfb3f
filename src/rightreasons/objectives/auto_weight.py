"""A weight that sets itself: the scale-free way to add a penalty."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

import torch
from torch import Tensor, distributed, nn

__all__ = ["AutoWeight", "gradient_norm"]


def gradient_norm(loss: Tensor, parameters: Sequence[Tensor], num_samples: int) -> float:
    """The norm of the gradient of a mean over samples; the graph stays.

    Args:
        loss: A mean over this process's samples.
        parameters: Where to differentiate.
        num_samples: How many samples this process has; the gradient is that of the mean over the
            samples of all processes.
    """
    gradients = (
        torch.autograd.grad(loss, list(parameters), retain_graph=True, allow_unused=True)
        if loss.requires_grad
        else [None] * len(parameters)
    )
    if not (distributed.is_available() and distributed.is_initialized()):
        squares = [
            float(gradient.double().square().sum())
            for gradient in gradients
            if gradient is not None
        ]
        return math.sqrt(sum(squares))
    flat = [
        (torch.zeros_like(weight) if gradient is None else gradient).double().flatten()
        for weight, gradient in zip(parameters, gradients, strict=True)
    ]
    count = torch.tensor([float(num_samples)], dtype=torch.float64, device=loss.device)
    total = torch.cat([num_samples * torch.cat(flat), count])
    distributed.all_reduce(total)
    return float(torch.linalg.vector_norm(total[:-1] / total[-1]))


logger = logging.getLogger("rightreasons")


class AutoWeight(nn.Module):
    r"""The weight at which a penalty pulls at the parameters as hard as the task does.

    .. math:: w = r \cdot \exp \frac1T \sum_{t=1}^{T}
              \log \frac{\lVert \nabla_\theta \ell_t \rVert}{\lVert \nabla_\theta P_t \rVert}

    over the first ``steps`` training steps, then fixed. During the warm-up the running estimate is
    used, so that no step goes without the penalty. Steps in which the penalty has no gradient (no
    mask in the batch) do not count. A penalty that grows to its weight (`Term.grown`) is measured
    as if it had. The state is part of the objective's ``state_dict``.

    Args:
        ratio: How hard the penalty pulls against the task; 1 is as hard.
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
        """The weight as it stands; 0 before anything was seen."""
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
            task: See `gradient_norm`; likewise the next three.
            penalty: To weigh against it.
            parameters: Where to differentiate.
            num_samples: Of this process.
            grown: See `Term.grown`; the penalty is measured as it will be when it is 1.
        """
        pull = gradient_norm(task, parameters, num_samples)
        push = gradient_norm(penalty, parameters, num_samples)
        if 0 < pull < math.inf and 0 < push < math.inf:
            self.log_sum += math.log(pull) - math.log(push) + math.log(grown)
            self.count += 1
            if self.settled:
                logger.info("An automatic weight is set to %.4g.", self.value)
