"""What attacks on predictions climb, and its slope at given points."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from rightreasons.probe import Probe
from rightreasons.types import Batch

__all__ = [
    "climb_slope",
    "cross_entropy",
    "deployed_logits",
    "log_odds",
    "ranked_rivals",
    "targeted_dlr",
]

Criterion = Callable[[Tensor, Tensor], Tensor]


def deployed_logits(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The logits ``(N, K)`` as at test time, without a graph."""
    with torch.no_grad():
        return Probe.at_test_time(model, Batch.trusted(x=x.detach(), y=y)).logits


def climb_slope(
    model: nn.Module, x: Tensor, y: Tensor, criterion: Criterion
) -> tuple[Tensor, Tensor, Tensor]:
    """The logits, the criterion's value and its slope at ``x``, as at test time.

    Parameters get no gradient.

    Args:
        model: Gives logits ``(N, K)``.
        x: ``(N, *S)``.
        y: ``(N,)``.
        criterion: Logits and labels to ``(N,)``.
    """
    batch = Batch.trusted(x=x.detach(), y=y)
    probe = Probe.at_test_time(model, batch, needs_gradient=True, create_graph=False)
    with torch.enable_grad():
        values = criterion(probe.logits, y)
        (slope,) = torch.autograd.grad(values.sum(), probe.features)
    return probe.logits.detach(), values.detach(), slope


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """The loss of each sample, ``(N,)``."""
    return functional.cross_entropy(logits, y, reduction="none")


def log_odds(logits: Tensor, y: Tensor) -> Tensor:
    r"""The log-odds of all other classes together against the label, ``(N,)``.

    .. math:: s = \log \frac{1 - p_y}{p_y} = \log \sum_{j \ne y} e^{z_j} - z_y

    Cross-entropy is :math:`\log(1 + e^s)`, which rises with s: both order points alike, and their
    slopes have one direction. But in single precision cross-entropy and the label's part of its
    slope are 0 where the label is 17 logits ahead, and all of its slope where it is 104; s is not.

    Example:
        >>> log_odds(torch.tensor([[200.0, 3.0, 3.0]]), torch.tensor([0]))
        tensor([-196.3069])
    """
    others = logits.scatter(1, y[:, None], -torch.inf)
    return others.logsumexp(dim=1) - logits.gather(1, y[:, None]).squeeze(1)


def ranked_rivals(logits: Tensor, y: Tensor) -> Tensor:
    """The other classes from the likeliest to the least likely, ``(N, K - 1)``."""
    others = logits.scatter(1, y[:, None], -torch.inf)
    return others.argsort(dim=1, descending=True, stable=True)[:, :-1]


def targeted_dlr(logits: Tensor, y: Tensor, rival: Tensor) -> Tensor:
    r"""The difference of logits ratio towards a rival class, ``(N,)``.

    .. math:: - \frac{z_y - z_t}{z_{\pi_1} - \frac12 (z_{\pi_3} + z_{\pi_4})}

    with the logits in falling order :math:`z_{\pi_1} \ge z_{\pi_2} \ge \dots` It neither changes
    with the scale of the logits nor vanishes where the model is sure.

    Differs from the paper: it asks for four classes. With three the denominator is
    :math:`z_{\pi_1} - z_{\pi_3}`; with two, where that would cancel, there is none.

    Example:
        >>> targeted_dlr(torch.tensor([[4.0, 3.0, 1.0, 0.0]]), torch.tensor([0]), torch.tensor([1]))
        tensor([-0.2857])

    References:
        croce2020reliable
    """
    own, other = (logits.gather(1, column[:, None]).squeeze(1) for column in (y, rival))
    num_classes = logits.shape[1]
    if num_classes == 2:
        return other - own
    ranked = logits.sort(dim=1, descending=True).values
    lower = ranked[:, 2] if num_classes == 3 else (ranked[:, 2] + ranked[:, 3]) / 2
    return (other - own) / (ranked[:, 0] - lower + 1e-12)  # equal logits have no order
