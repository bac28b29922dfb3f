"""How hard a loss pulls at the parameters."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, distributed

__all__ = ["gradient_norm"]


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
