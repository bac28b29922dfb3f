"""What attacks on predictions share: the result, the losses, the base class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from rightreasons.attacks.ball import Ball, BallNorm
from rightreasons.core.checks import check_integer
from rightreasons.core.second_order import innermost
from rightreasons.errors import InvalidBatchError
from rightreasons.probe.probe import Probe
from rightreasons.types import Batch, Target

__all__ = [
    "Attacked",
    "OutputAttack",
    "Record",
    "checked_samples",
    "climb_slope",
    "cross_entropy",
    "deployed_logits",
    "log_odds",
    "ranked_rivals",
    "targeted_dlr",
]


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
        """The same, with what ``other`` found for the samples at ``rows`` where it is worse."""
        better = rows[(other.margin < self.margin[rows]) | (other.fooled & ~self.fooled[rows])]
        place = torch.full_like(self.fooled, -1, dtype=torch.long)
        place[rows] = torch.arange(len(rows), device=rows.device)
        x, fooled, margin = self.x.clone(), self.fooled.clone(), self.margin.clone()
        x[better] = other.x[place[better]]
        fooled[better] = other.fooled[place[better]]
        margin[better] = other.margin[place[better]]
        return Attacked(x, fooled, margin)


class Record:
    """The worst point seen so far of each sample.

    Args:
        x: The samples, ``(N, *S)``.
    """

    def __init__(self, x: Tensor) -> None:
        self.x = x.detach().clone()
        self.fooled = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        self.margin = torch.full((len(x),), torch.inf, dtype=x.dtype, device=x.device)

    def see(self, rows: Tensor, points: Tensor, logits: Tensor, y: Tensor) -> Tensor:
        """Look at new points of the samples at ``rows``; which of them fool, ``(len(rows),)``.

        What is no number fools, and its margin is none.
        """
        margins = Target.MARGIN(logits.detach(), y).to(self.margin)
        fooled = (logits.argmax(dim=1) != y) | margins.isnan()
        better = (margins < self.margin[rows]) | fooled
        self.x[rows[better]] = points.detach()[better]
        self.margin[rows[better]] = margins[better]
        self.fooled[rows[better]] = fooled[better]
        return fooled

    def result(self) -> Attacked:
        """What was found."""
        return Attacked(self.x, self.fooled, self.margin)


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


def checked_samples(x: Tensor, y: Tensor, index: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """The samples, their labels and their numbers, checked as those of a `Batch` are.

    Args:
        x: ``(N, *S)``, floating point.
        y: ``(N,)``.
        index: ``(N,)``; 0, 1, ... if None.
    """
    batch = Batch(x=x, y=y, index=index)
    if not batch.x.is_floating_point():
        raise InvalidBatchError(
            f"Expected floating point `x` to move, but got {x.dtype}. Token ids cannot move."
        )
    places = torch.arange(len(batch), device=x.device)
    return batch.x.detach(), batch.y, places if batch.index is None else batch.index


class OutputAttack(ABC):
    """Looks for an input near each sample that the model gets wrong.

    The model is attacked as at test time and left as it was: no ``.grad``, statistic or mode
    changes. Inputs are in the data's units, so a model normalises them inside. A sample that is
    fooled once, perhaps where it stands, drops out of the batch. What is drawn for a sample
    depends on the seed and its number, never on its batch. A model that gives no number, at a
    sample or where the search goes, is an error: it neither stands nor falls.

    Args:
        epsilon: See `Ball`.
        norm: See `Ball`.
        num_restarts: How often to search each sample that is not fooled yet.
        valid_range: See `Ball`.
        seed: Of the draws.
        max_rows: The most samples that are attacked at once; None is no ceiling.
    """

    def __init__(
        self,
        *,
        epsilon: float,
        norm: BallNorm,
        num_restarts: int,
        valid_range: tuple[float, float] | None,
        seed: int,
        max_rows: int | None,
    ) -> None:
        self.ball = Ball(epsilon=epsilon, norm=norm, valid_range=valid_range)
        self.num_restarts = check_integer("num_restarts", num_restarts)
        self.seed = check_integer("seed", seed, low=0)
        self.max_rows = None if max_rows is None else check_integer("max_rows", max_rows)

    @abstractmethod
    def search(
        self, model: nn.Module, x: Tensor, y: Tensor, *, index: Tensor, run: int
    ) -> Attacked:
        """Search once around samples that are not fooled; ``run`` counts from 0."""

    def num_runs(self, num_classes: int) -> int:
        """How often to search a sample that is not fooled."""
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
        core, (x, y, index) = innermost(model), checked_samples(x, y, index)
        everyone = torch.arange(len(x), device=x.device)
        parts = [
            self._attacked(core, x[rows], y[rows], index[rows])
            for rows in torch.split(everyone, self.max_rows or max(1, len(x)))
        ]
        return Attacked(
            x=torch.cat([part.x for part in parts]),
            fooled=torch.cat([part.fooled for part in parts]),
            margin=torch.cat([part.margin for part in parts]),
        )

    def _attacked(self, model: nn.Module, x: Tensor, y: Tensor, index: Tensor) -> Attacked:
        logits, record = deployed_logits(model, x, y), Record(x)
        _refuse(~logits.isfinite().all(dim=1), index, "at")
        record.see(torch.arange(len(x), device=x.device), x, logits, y)
        found = record.result()
        for run in range(self.num_runs(logits.shape[1])):
            rows = (~found.fooled).nonzero().flatten()
            if not len(rows):
                break
            worse = self.search(model, x[rows], y[rows], index=index[rows], run=run)
            found = found.stronger(rows, worse)
        _refuse(found.margin.isnan(), index, "near")
        return found


def _refuse(bad: Tensor, index: Tensor, where: str) -> None:
    if bool(bad.any()):
        raise InvalidBatchError(
            f"Expected finite logits, but got NaN or infinity {where} {int(bad.sum())} of "
            f"{len(bad)} samples, first {where} sample {int(index[bad][0])}. Check the model's "
            "weights, and that its input gradients are finite too."
        )
