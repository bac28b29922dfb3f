"""Gradients at many altered copies of each sample, stacked under a ceiling and averaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from rightreasons.explainers.subject import Subject
from rightreasons.target import Target

__all__ = ["averaged_gradient", "stacked_rows"]


def stacked_rows(
    num_copies: int, num_samples: int, max_rows: int | None, device: torch.device
) -> Iterator[tuple[Tensor, Tensor]]:
    """Number the rows of all copies, at most ``max_rows`` at a time: copy and sample of each.

    Example:
        >>> for copies, samples in stacked_rows(2, 3, 4, torch.device("cpu")):
        ...     print(copies.tolist(), samples.tolist())
        [0, 0, 0, 1] [0, 1, 2, 0]
        [1, 1] [1, 2]
    """
    total = num_copies * num_samples
    for rows in torch.split(torch.arange(total, device=device), max_rows or total):
        yield rows // num_samples, rows % num_samples


def averaged_gradient(
    subject: Subject,
    altered: Callable[[Tensor, Tensor], Tensor],
    weights: Tensor,
    *,
    target: Target,
    max_rows: int | None,
) -> Tensor:
    r"""The weighted sum of gradients at altered copies, :math:`\sum_k w_k \nabla t(x_k)`.

    Copies are made as their turn comes, so that memory grows with ``max_rows`` and not with their
    number; only a graph, if one is asked for, keeps them all.

    Args:
        subject: The model and the samples.
        altered: Gives features for the numbers of copies and of samples, both ``(R,)``.
        weights: ``(K,)``: the weight of each copy.
        target: What is differentiated.
        max_rows: The most rows of one pass; None is no ceiling.

    Returns:
        ``(N, *S)``.
    """
    features = subject.features
    total = torch.zeros_like(features)
    trailing = (1,) * (features.ndim - 1)
    weights = weights.to(features)
    for copies, samples in stacked_rows(len(weights), len(features), max_rows, features.device):
        gradient = subject.probe(altered(copies, samples), samples).gradient(target)
        weighted = weights[copies].reshape(-1, *trailing) * gradient
        total = total.index_add(0, samples, weighted.to(total.dtype))
    return total
