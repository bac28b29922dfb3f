"""Norms of samples and gradients, and formulas over the samples of all processes."""

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, distributed

from rightreasons.errors import InvalidSettingError

__all__ = [
    "Norm",
    "check_norm",
    "gather_rows",
    "gradient_norm",
    "measure_whole_batch",
    "sample_norm",
]

Norm = Literal["l1", "l2", "squared_l2"] | float

NAMES = ("l1", "l2", "squared_l2")


def check_norm(norm: Norm) -> Norm:
    """Give the norm back, or raise if it is not one."""
    if isinstance(norm, str) and norm in NAMES:
        return norm
    if isinstance(norm, int | float) and not isinstance(norm, bool) and norm >= 1:
        return norm
    raise InvalidSettingError(
        f"Expected `norm` to be one of {NAMES} or a number p of at least 1, or math.inf, but got "
        f"{norm!r}."
    )


def sample_norm(values: Tensor, norm: Norm) -> Tensor:
    r"""Each sample's norm: ``(N, *S) -> (N,)``.

    ``"l1"``, ``"l2"``, ``"squared_l2"`` or a number p for :math:`(\sum |v|^p)^{1/p}`, with
    ``math.inf`` for the largest feature. The norms are sums over features, not means: their unit
    is that of ``values`` (squared for ``"squared_l2"``), whatever the number of features outside
    the mask. At zero the derivative of each is zero, never NaN.

    Example:
        >>> sample_norm(torch.tensor([[3.0, -4.0]]), "l2")
        tensor([5.])
    """
    rows = values.flatten(1)
    if norm == "l1" or not rows.shape[1]:  # the largest of no features does not exist
        return rows.abs().sum(dim=1)
    if norm == "squared_l2":
        squares: Tensor = torch.linalg.vecdot(rows, rows, dim=1)  # a pass less than square, sum
        return squares
    p = 2.0 if norm == "l2" else float(norm)
    if p not in (1.0, 2.0, math.inf):
        return _scaled_norm(rows, p)
    size: Tensor = torch.linalg.vector_norm(rows, ord=p, dim=1)
    return size


def gradient_norm(loss: Tensor, parameters: Sequence[Tensor], num_samples: int) -> float:
    """The norm of the gradient of a mean over samples; the graph is kept.

    In several processes it is the gradient of the mean over the samples of all of them.

    Args:
        loss: A mean over this process's samples.
        parameters: Tensors to differentiate for.
        num_samples: Number of samples in this process.
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


def gather_rows(rows: Tensor) -> list[Tensor]:
    """The rows of each process, in the order of their ranks; this process's are ``rows`` itself.

    Args:
        rows: ``(N, ...)``; N may differ between processes.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return [rows]
    rank, counts = distributed.get_rank(), [0] * distributed.get_world_size()
    counts[rank] = len(rows)
    sizes = torch.tensor(counts, device=rows.device)
    distributed.all_reduce(sizes)
    own = rows.detach()
    padded = own.new_zeros(int(sizes.max()), *own.shape[1:])
    padded[: len(own)] = own
    parts = [torch.empty_like(padded) for _ in counts]
    distributed.all_gather(parts, padded)
    found = [part[:size] for part, size in zip(parts, sizes.tolist(), strict=True)]
    found[rank] = rows
    return found


def measure_whole_batch(formula: Callable[..., Tensor], *rows: Tensor) -> Tensor:
    """The losses of this process's samples by a formula that couples the samples of a batch.

    In several processes the formula sees the samples of all. The rows of other processes are
    constant. So each loss also gets the derivative of their losses for the rows of this process:
    the gradient averaged over processes is that of one process with the whole batch.

    Args:
        formula: Gives each sample's loss ``(N,)`` for the rows of all samples.
        rows: Tensors ``(N, ...)`` with the rows of this process.

    Example:
        >>> measure_whole_batch(lambda x: x - x.mean(), torch.tensor([1.0, 3.0]))
        tensor([-1.,  1.])
    """
    parts = [gather_rows(one) for one in rows]
    if len(parts[0]) == 1:
        return formula(*rows)
    rank, size = distributed.get_rank(), len(rows[0])
    first = sum(len(part) for part in parts[0][:rank])
    losses = formula(*(torch.cat(part) for part in parts))
    own = losses[first : first + size]
    others = losses.sum() - own.sum()
    return own + (others - others.detach()) / size


def _scaled_norm(rows: Tensor, p: float) -> Tensor:
    r"""``(N, D) -> (N,)``, as :math:`m \lVert v / m \rVert_p` with m the largest entry's size.

    Powers of the entries themselves overflow or vanish in single precision: 0.01 to the 20th is 0.
    """
    largest = rows.detach().abs().amax(dim=1)
    # The two m cancel whatever m is, so its own derivative would be zero: it may be detached.
    scale = torch.where((largest > 0) & largest.isfinite(), largest, 1)
    scaled: Tensor = torch.linalg.vector_norm(rows / scale[:, None], ord=p, dim=1)
    return scale * scaled
