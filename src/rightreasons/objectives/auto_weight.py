"""A weight that sets itself: the scale-free way to add a penalty."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, distributed, nn

__all__ = ["AutoWeight"]


class AutoWeight(nn.Module):
    r"""The weight at which a penalty pulls at the parameters as hard as the task does.

    .. math:: w = r \cdot \exp \frac1T \sum_{t=1}^{T}
              \log \frac{\lVert \nabla_\theta \ell_t \rVert}{\lVert \nabla_\theta P_t \rVert}

    over the first ``steps`` training steps, then fixed. During the warm-up the running estimate is
    used, so that no step goes without the penalty. Steps in which the penalty has no gradient (no
    mask in the batch) do not count. The state is part of the objective's ``state_dict``.

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

    def observe(self, task: Tensor, penalty: Tensor, parameters: Sequence[Tensor]) -> None:
        """Take one step's ratio into account; the graphs stay."""
        if not penalty.requires_grad:
            return
        norms = torch.stack([_gradient_norm(part, parameters) for part in (task, penalty)])
        if distributed.is_available() and distributed.is_initialized():
            distributed.all_reduce(norms)
        pull, push = norms.tolist()
        if pull > 0 and push > 0 and math.isfinite(pull) and math.isfinite(push):
            self.log_sum += math.log(pull) - math.log(push)
            self.count += 1


def _gradient_norm(loss: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    gradients = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
    norms = [
        torch.linalg.vector_norm(gradient.double())
        for gradient in gradients
        if gradient is not None
    ]
    return (
        torch.linalg.vector_norm(torch.stack(norms))
        if norms
        else loss.new_zeros((), dtype=torch.float64)
    )
