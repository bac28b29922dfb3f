"""What attacks on predictions share: the base class, the result, the losses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from rightreasons.attacks.ball import Ball
from rightreasons.core.checks import check_integer
from rightreasons.core.memory import rows_within_budget
from rightreasons.core.model_modes import innermost
from rightreasons.errors import InvalidBatchError
from rightreasons.probe.probe import Probe
from rightreasons.types import Batch, Target

__all__ = [
    "Attacked",
    "OutputAttack",
    "Record",
    "check_samples",
    "climb_slope",
    "cross_entropy",
    "log_odds",
    "logits_at_test_time",
    "ranked_rivals",
    "targeted_dlr",
]


Criterion = Callable[[Tensor, Tensor], Tensor]
"""Maps logits and labels to a value for each sample, ``(N,)``."""


class OutputAttack(ABC):
    """Searches near each sample for an input that the model gets wrong.

    The model is attacked as at test time and left as it was: no ``.grad``, statistic or mode
    changes. Inputs are in the data's units, so a model normalises them inside. A sample leaves the
    batch once it is fooled, perhaps at the sample itself. What is drawn for a sample depends on
    the seed and its number, never on its batch. Logits that are not finite, at a sample or on the
    way of the search, are an error.

    Args:
        ball: The set that is searched around each sample.
        num_restarts: Number of searches for each sample that is not fooled yet.
        seed: Random seed for the draws.
        max_rows: The most samples that are attacked at once; None fits a memory budget.
    """

    def __init__(
        self, ball: Ball, *, num_restarts: int = 1, seed: int = 0, max_rows: int | None = None
    ) -> None:
        self.ball = ball
        self.num_restarts = check_integer("num_restarts", num_restarts)
        self.seed = check_integer("seed", seed, low=0)
        self.max_rows = None if max_rows is None else check_integer("max_rows", max_rows)

    @abstractmethod
    def search(
        self, model: nn.Module, x: Tensor, y: Tensor, *, index: Tensor, run: int
    ) -> Attacked:
        """Search once around samples that are not fooled; ``run`` counts from 0."""

    def num_runs(self, num_classes: int) -> int:
        """The number of searches for a sample that is not fooled."""
        del num_classes
        return self.num_restarts

    def __call__(
        self, model: nn.Module, x: Tensor, y: Tensor, *, index: Tensor | None = None
    ) -> Attacked:
        """Attack the predictions of ``y`` at ``x``.

        Args:
            model: Gives logits ``(N, K)``.
            x: ``(N, *S)``, floating point.
            y: ``(N,)``: the labels.
            index: ``(N,)``: the samples' numbers, on which their draws depend; 0, 1, ... if None.
        """
        core, (x, y, index) = innermost(model), check_samples(x, y, index)
        samples = torch.arange(len(x), device=x.device)
        most = self.max_rows or rows_within_budget(core, x, "gradients", ceiling=len(x))
        parts = [
            self._attack(core, x[rows], y[rows], index[rows]) for rows in torch.split(samples, most)
        ]
        return Attacked(
            x=torch.cat([part.x for part in parts]),
            fooled=torch.cat([part.fooled for part in parts]),
            margin=torch.cat([part.margin for part in parts]),
        )

    def _attack(self, model: nn.Module, x: Tensor, y: Tensor, index: Tensor) -> Attacked:
        logits, record = logits_at_test_time(model, x, y), Record(x)
        _refuse_samples(~logits.isfinite().all(dim=1), index, "at")
        record.add(torch.arange(len(x), device=x.device), x, logits, y)
        worst = record.result()
        for run in range(self.num_runs(logits.shape[1])):
            rows = (~worst.fooled).nonzero().flatten()
            if not len(rows):
                break
            result = self.search(model, x[rows], y[rows], index=index[rows], run=run)
            worst = worst.stronger(rows, result)
        _refuse_samples(worst.margin.isnan(), index, "near")
        return worst


@dataclass(frozen=True)
class Attacked:
    """The worst inputs an attack on predictions found.

    Args:
        x: ``(N, *S)``: where the label's margin was smallest among the points that were tried,
            the sample itself included.
        fooled: ``(N,)``: whether the prediction there is not the label.
        margin: ``(N,)``: the label's logit there, less the largest other one.
    """

    x: Tensor
    fooled: Tensor
    margin: Tensor

    def stronger(self, rows: Tensor, other: Attacked) -> Attacked:
        """The same, with the result ``other`` of the samples at ``rows`` where that is worse."""
        better = rows[(other.margin < self.margin[rows]) | (other.fooled & ~self.fooled[rows])]
        row_in_other = torch.full_like(self.fooled, -1, dtype=torch.long)
        row_in_other[rows] = torch.arange(len(rows), device=rows.device)
        x, fooled, margin = self.x.clone(), self.fooled.clone(), self.margin.clone()
        x[better] = other.x[row_in_other[better]]
        fooled[better] = other.fooled[row_in_other[better]]
        margin[better] = other.margin[row_in_other[better]]
        return Attacked(x, fooled, margin)


class Record:
    """The worst point of each sample among those added so far.

    Args:
        x: The samples, ``(N, *S)``.
    """

    def __init__(self, x: Tensor) -> None:
        self.x = x.detach().clone()
        self.fooled = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        self.margin = torch.full((len(x),), torch.inf, dtype=x.dtype, device=x.device)

    def add(self, rows: Tensor, points: Tensor, logits: Tensor, y: Tensor) -> Tensor:
        """Add new points of the samples at ``rows``; which of them fool, ``(len(rows),)``.

        A point with NaN in its logits fools, and its margin is NaN.
        """
        margins = Target.MARGIN(logits.detach(), y).to(self.margin)
        fooled = (logits.argmax(dim=1) != y) | margins.isnan()
        better = (margins < self.margin[rows]) | fooled
        self.x[rows[better]] = points.detach()[better]
        self.margin[rows[better]] = margins[better]
        self.fooled[rows[better]] = fooled[better]
        return fooled

    def result(self) -> Attacked:
        """The worst points as a result."""
        return Attacked(self.x, self.fooled, self.margin)


def logits_at_test_time(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The logits ``(N, K)`` as at test time, without a graph."""
    with torch.no_grad():
        return Probe.at_test_time(model, Batch.trusted(x=x.detach(), y=y)).logits


def climb_slope(
    model: nn.Module, x: Tensor, y: Tensor, criterion: Criterion
) -> tuple[Tensor, Tensor, Tensor]:
    """The logits, the criterion's value and its gradient at ``x``, as at test time.

    Parameters get no gradient.

    Args:
        model: Gives logits ``(N, K)``.
        x: The points, ``(N, *S)``.
        y: Their labels, ``(N,)``.
        criterion: Maps logits and labels to ``(N,)``.
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

    Cross-entropy is :math:`\log(1 + e^s)`, which increases with s: both order points alike, and
    their gradients have one direction. But in single precision cross-entropy is 0 where the label
    is 17 logits ahead, and so is the label's part of its gradient. Where the label is 104 logits
    ahead, the whole gradient is 0. Neither holds for s.

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

    with the logits in falling order :math:`z_{\pi_1} \ge z_{\pi_2} \ge \dots`. It neither changes
    with the scale of the logits nor vanishes where the model is confident.

    Differs from the paper: it asks for four classes. With three the denominator is
    :math:`z_{\pi_1} - z_{\pi_3}`; with two, where that would cancel, there is none.

    Example:
        >>> targeted_dlr(torch.tensor([[4.0, 3.0, 1.0, 0.0]]), torch.tensor([0]), torch.tensor([1]))
        tensor([-0.2857])

    References:
        croce2020reliable
    """
    label, other = (logits.gather(1, column[:, None]).squeeze(1) for column in (y, rival))
    num_classes = logits.shape[1]
    if num_classes == 2:
        return other - label
    ranked = logits.sort(dim=1, descending=True).values
    lower = ranked[:, 2] if num_classes == 3 else (ranked[:, 2] + ranked[:, 3]) / 2
    return (other - label) / (ranked[:, 0] - lower + 1e-12)  # equal logits have no order


def check_samples(x: Tensor, y: Tensor, index: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """The samples, their labels and their numbers, checked as those of a `Batch` are.

    Args:
        x: The samples, ``(N, *S)``, floating point.
        y: Their labels, ``(N,)``.
        index: Their numbers, ``(N,)``; 0, 1, ... if None.
    """
    batch = Batch(x=x, y=y, index=index)
    if not batch.x.is_floating_point():
        raise InvalidBatchError(
            f"Expected floating point `x` to move, but got {x.dtype}. Token ids cannot move."
        )
    numbers = torch.arange(len(batch), device=x.device)
    return batch.x.detach(), batch.y, numbers if batch.index is None else batch.index


def _refuse_samples(bad: Tensor, index: Tensor, where: str) -> None:
    if bool(bad.any()):
        raise InvalidBatchError(
            f"Expected finite logits, but got NaN or infinity {where} {int(bad.sum())} of "
            f"{len(bad)} samples, first {where} sample {int(index[bad][0])}. Check the model's "
            "weights, and that its input gradients are finite too."
        )
