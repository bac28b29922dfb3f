"""How a layer hands relevance down: in proportion to what each input contributed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

__all__ = ["Linear", "box_rule", "epsilon_rule", "gamma_rule", "shares", "z_plus_rule"]

Linear = Callable[[Tensor, Tensor], Tensor]
"""An affine layer without its bias: input and weight -> output, linear in both."""


def z_plus_rule(linear: Linear, x: Tensor, weight: Tensor, relevance: Tensor) -> Tensor:
    r"""The z+ rule, where only positive contributions count.

    .. math:: R_i = \sum_j \frac{(x_i w_{ij})_+}{\sum_{i'} (x_{i'} w_{i'j})_+} R_j

    For activations of at least 0 it is the paper's :math:`x_i w_{ij}^+`. The bias takes nothing.
    """
    pairs = [(x.clamp(min=0), weight.clamp(min=0))]
    if bool((x < 0).any()):
        pairs.append((x.clamp(max=0), weight.clamp(max=0)))
    return _handed_down(linear, pairs, relevance)


def box_rule(
    linear: Linear, x: Tensor, weight: Tensor, relevance: Tensor, lower: Tensor, upper: Tensor
) -> Tensor:
    r"""The zB rule for inputs in a box :math:`[l, h]`, on which no contribution is negative.

    .. math:: R_i = \sum_j \frac{x_i w_{ij} - l_i w_{ij}^+ - h_i w_{ij}^-}
        {\sum_{i'} x_{i'} w_{i'j} - l_{i'} w_{i'j}^+ - h_{i'} w_{i'j}^-} R_j
    """
    # The same numbers as in the formula, without its cancellations.
    pairs = [(x - lower, weight.clamp(min=0)), (x - upper, weight.clamp(max=0))]
    return _handed_down(linear, pairs, relevance)


def epsilon_rule(
    linear: Linear,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    relevance: Tensor,
    *,
    epsilon: float,
) -> Tensor:
    r"""The epsilon rule: all contributions count, and the bias keeps its share.

    .. math:: R_i = \sum_j \frac{x_i w_{ij}}{z_j + \epsilon \, \mathrm{sign}(z_j)} R_j,
        \quad z_j = \sum_i x_i w_{ij} + b_j
    """
    return _handed_down(linear, [(x, weight)], relevance, bias=bias, epsilon=epsilon)


def gamma_rule(
    linear: Linear,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    relevance: Tensor,
    *,
    gamma: float,
    epsilon: float,
) -> Tensor:
    r"""The gamma rule, which favours positive weights: :math:`w + \gamma w^+` for w and b."""
    favoured = bias if bias is None else bias + gamma * bias.clamp(min=0)
    pairs = [(x, weight + gamma * weight.clamp(min=0))]
    return _handed_down(linear, pairs, relevance, bias=favoured, epsilon=epsilon)


def shares(
    contributions: Sequence[Tensor], relevance: Tensor, *, epsilon: float = 0.0
) -> list[Tensor]:
    """Split relevance among summands in proportion to their contributions.

    Example:
        >>> one, three = torch.tensor([1.0]), torch.tensor([3.0])
        >>> [part.item() for part in shares([one, three], torch.tensor([8.0]))]
        [2.0, 6.0]
    """
    total = reduce(operator.add, contributions)
    rate = _rate(relevance, total, epsilon)
    return [(part * rate).sum_to_size(part.shape) for part in contributions]


def _handed_down(
    linear: Linear,
    pairs: Sequence[tuple[Tensor, Tensor]],
    relevance: Tensor,
    *,
    bias: Tensor | None = None,
    epsilon: float = 0.0,
) -> Tensor:
    outputs, pulls = zip(*(_pass(linear, x, weight) for x, weight in pairs), strict=True)
    total: Tensor = reduce(operator.add, outputs)
    if bias is not None:
        total = total + bias
    rate = _rate(relevance, total, epsilon)
    parts: list[Tensor] = [x * pull(rate) for (x, _), pull in zip(pairs, pulls, strict=True)]
    return reduce(operator.add, parts)


def _pass(linear: Linear, x: Tensor, weight: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The output, and what pulls a tensor of its shape back to the input."""
    passed: Any = torch.func.vjp(lambda given: linear(given, weight), x)
    return passed[0], lambda rate: passed[1](rate)[0]


def _rate(relevance: Tensor, total: Tensor, epsilon: float) -> Tensor:
    """Relevance per unit of contribution; nothing where nothing was contributed.

    A total so small that a rate would overflow, as of a Softplus far below 0, counts as nothing.
    """
    if epsilon:
        total = total + torch.where(total < 0, -epsilon, epsilon)
    is_empty = total.abs() <= torch.finfo(total.dtype).tiny ** 0.5
    return torch.where(is_empty, 0, relevance / torch.where(is_empty, 1, total))
