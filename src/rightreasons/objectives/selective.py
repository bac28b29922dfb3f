"""Losses of models that may abstain: Deep Gamblers, SelectiveNet, one-sided prediction."""

from __future__ import annotations

import math
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from rightreasons.core.checks import check_fraction, positive_float
from rightreasons.core.model_modes import innermost
from rightreasons.core.norms import measure_whole_batch
from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.models.layers import ABSTENTION, AUXILIARY, SELECTION, side_output
from rightreasons.objectives.objective import Term
from rightreasons.objectives.recipe import recipe
from rightreasons.objectives.robust_term import Ramp
from rightreasons.probe.probe import Probe

__all__ = [
    "DeepGamblers",
    "OneSided",
    "SelectiveNet",
    "SideTerm",
    "deep_gamblers",
    "one_sided",
    "selective_net",
]


class SideTerm(Term):
    """A term that reads side outputs of a model; ``layers`` are their names."""

    @override
    def layers_in(self, model: nn.Module, x: Tensor) -> tuple[str, ...]:
        del x
        return tuple(side_output(model, layer) for layer in self.layers)

    def recorded(self, probe: Probe, layer: str) -> Tensor:
        """The layer's output in this pass, in the precision of the logits."""
        name = side_output(innermost(probe.model), layer)
        if name not in probe.activations:
            raise InvalidSettingError(
                f"Expected a probe made with `layers=[{name!r}]`, but it recorded none."
            )
        return probe.activations[name].to(probe.logits.dtype)


@final
class DeepGamblers(SideTerm):
    r"""The loss of a classifier that may abstain, as a gambler keeps his stake: Deep Gamblers.

    .. math:: -\log \Bigl( p_y(x) + \frac{p_{K+1}(x)}{o} \Bigr)

    where the last of K + 1 probabilities is that of abstaining, for a model that is `Abstaining`.
    Unit: nats. The smaller the reward o, the more samples the model abstains on: near 1 all, at the
    number of classes or above possibly none. The paper's loss is this less :math:`\log o`, which
    has the same gradient; its public code has it as here.

    Args:
        reward: o, above 1; chosen on validation data in the paper, 2.2 by default in the public
            code.
        warm_up: Share of training with the cross-entropy of the K classes alone. Without it a model
            with a small reward learns nothing. The public code has it for 100 of 300 epochs on
            CIFAR-10 if the reward is below 6.1, and not otherwise.

    Example:
        >>> from torch import nn
        >>> from rightreasons.models import Abstaining
        >>> from rightreasons.types import Batch
        >>> even = Batch(x=torch.zeros(1, 3), y=torch.tensor([0]))  # 1/3 + 1/3 / 2 = 1/2
        >>> probe = Probe(Abstaining(nn.Identity()), even, layers=["all_logits"])
        >>> DeepGamblers(reward=2.0)(probe)
        tensor([0.6931])

    References:
        liu2019deep
    """

    is_task = True
    layers = (ABSTENTION,)

    def __init__(self, *, reward: float = 2.2, warm_up: float = 0.0) -> None:
        super().__init__()
        valid = isinstance(reward, int | float) and not isinstance(reward, bool)
        if not valid or not 1 < reward < math.inf:
            raise InvalidSettingError(
                f"Expected `reward` to be a finite number above 1, but got {reward!r}."
            )
        self.reward = float(reward)
        self.warm_up = check_fraction("warm_up", warm_up, below_one=True)
        self.progress = Ramp(self.warm_up)

    @override
    def prepare(self, data: Dataset, *, num_passes: int) -> None:
        del data
        self.progress.prepare(num_passes)

    @override
    def forward(self, probe: Probe) -> Tensor:
        y = probe.batch.y
        if self.progress.advanced() < 1:
            return functional.cross_entropy(probe.logits, y, reduction="none")
        logits = self.recorded(probe, ABSTENTION)
        answered = logits.gather(1, y[:, None])[:, 0]
        abstained = logits[:, -1] - math.log(self.reward)
        return logits.logsumexp(dim=1) - torch.logaddexp(answered, abstained)


@recipe(DeepGamblers, warm_up=1 / 3)  # as in the public code for small rewards
def deep_gamblers(task: DeepGamblers) -> Term:
    """Deep Gamblers: abstaining costs less than an error; for the model `abstaining`.

    Example:
        >>> deep_gamblers(reward=4.0).weights
        {'deep_gamblers': 1.0}
    """
    return task


@final
class SelectiveNet(SideTerm):
    r"""The selective risk at a coverage, for a model with `SelectiveHeads`.

    .. math:: \alpha \Bigl( \frac{g_n \ell_n}{\bar g}
              + \lambda \max(0, c - \bar g)^2 \Bigr) + (1 - \alpha) \, \ell'_n

    where :math:`\ell_n` is the cross-entropy of the prediction and :math:`g_n` the selection of the
    sample, from 0 to 1. :math:`\bar g` is its mean over the batch and :math:`\ell'_n` the
    cross-entropy of the auxiliary head. Unit: nats; the middle part is a penalty without a unit.
    The mean over the batch is the paper's loss; a sample's value depends on its batch. In several
    processes the batch is that of all.

    Differs from the paper's public code, not from its text: the code does not divide by
    :math:`\bar g`, so that there selecting less lowers the first part by itself.

    Args:
        coverage: c, the share of samples to answer; the paper trains a net for each.
        weight: :math:`\lambda`; 32 in the paper and its code.
        alpha: Weight of the selective part, beside the auxiliary head's; 0.5 in the paper and its
            code.

    References:
        geifman2019selectivenet
    """

    is_task = True
    layers = (SELECTION, AUXILIARY)

    def __init__(self, *, coverage: float = 0.9, weight: float = 32.0, alpha: float = 0.5) -> None:
        super().__init__()
        self.coverage = _checked_part("coverage", coverage)
        self.weight = positive_float("weight", weight)
        self.alpha = _checked_part("alpha", alpha)

    @override
    def forward(self, probe: Probe) -> Tensor:
        y = probe.batch.y
        log_selected = functional.logsigmoid(self.recorded(probe, SELECTION)[:, 0])
        risk = functional.cross_entropy(probe.logits, y, reduction="none")
        auxiliary = functional.cross_entropy(self.recorded(probe, AUXILIARY), y, reduction="none")
        return measure_whole_batch(self._combine, log_selected, risk, auxiliary)

    def _combine(self, log_selected: Tensor, risk: Tensor, auxiliary: Tensor) -> Tensor:
        # N softmax(log g) is g divided by the mean of g, also where every g is nearly 0.
        weighted = len(risk) * functional.softmax(log_selected, dim=0) * risk
        missing = (self.coverage - log_selected.exp().mean()).clamp(min=0).square()
        return self.alpha * (weighted + self.weight * missing) + (1 - self.alpha) * auxiliary


@recipe(SelectiveNet)
def selective_net(task: SelectiveNet) -> Term:
    """SelectiveNet: few errors among a share of samples; for the model `selective_net`.

    Example:
        >>> selective_net(coverage=0.8).weights
        {'selective_net': 1.0}
    """
    return task


@final
class OneSided(Term):
    r"""The coverage of each class, and the false positives in it: one-sided prediction.

    .. math:: \frac{-\log p_y(x)}{K \pi_y}
              + \mu \sum_{k \ne y} \frac{-\log(1 - p_k(x))}{K (1 - \pi_k)}

    with :math:`\pi_k` the share of training samples of class k. The mean over samples is the mean
    over classes of the one-sided risks. Unit: nats. With classes of one size the first part is
    cross-entropy. The larger :math:`\mu`, the fewer errors among answered samples. A sample is
    answered where the largest probability reaches a threshold.

    Differs from the paper: its minimax program has a multiplier and a slack, priced at
    :math:`\mu`, for each class. At the saddle point every multiplier is :math:`\mu`, which gives
    the formula above; it is minimised here directly. The public code adds a second head with
    cross-entropy, and counts classes in each batch, not in the training data.

    Args:
        mu: Price of false positives; the paper tries several, the public code has 0.5 and 1.67.

    Example:
        >>> from torch import nn
        >>> from rightreasons.types import Batch
        >>> even = Batch(x=torch.zeros(1, 2), y=torch.tensor([0]))  # log 2 + log 2
        >>> OneSided(mu=1.0)(Probe(nn.Identity(), even))
        tensor([1.3863])

    References:
        gangrade2021selective
    """

    is_task = True
    frequency: Tensor

    def __init__(self, *, mu: float = 1.0) -> None:
        super().__init__()
        self.mu = positive_float("mu", mu)
        self.register_buffer("frequency", torch.zeros(0))

    def prepare(self, data: Dataset, *, num_passes: int) -> None:
        """Count the classes; before this, they count as equally frequent."""
        del num_passes
        counts = torch.bincount(data.labels, minlength=len(data.card.classes))
        if bool((counts == len(data)).any()):
            raise InvalidBatchError(
                "Expected training samples of at least two classes for OneSided, but all are of "
                "one. Use data with more."
            )
        self.frequency = counts / counts.sum()

    @override
    def forward(self, probe: Probe) -> Tensor:
        logits, y = probe.logits, probe.batch.y
        size = logits.shape[1]
        equal = logits.new_full((size,), 1 / size)
        frequency = self.frequency.to(logits) if len(self.frequency) else equal
        is_label = functional.one_hot(y, size).bool()
        false = (_negative_log_complement(logits) / (1 - frequency)).masked_fill(is_label, 0)
        covered = functional.cross_entropy(logits, y, reduction="none") / frequency[y]
        return (covered + self.mu * false.sum(dim=1)) / size


@recipe(OneSided)
def one_sided(task: OneSided) -> Term:
    """One-sided prediction: a class answers many samples, few of them of other classes.

    Example:
        >>> one_sided(mu=1.67).weights
        {'one_sided': 1.0}
    """
    return task


def _negative_log_complement(logits: Tensor) -> Tensor:
    """The negative logarithm of 1 - p, ``(N, K)``; exact also where p rounds to 1."""
    is_top = functional.one_hot(logits.argmax(dim=1), logits.shape[1]).bool()
    # The largest p may round to 1: 1 - p is the sum of the others, taken in logarithms.
    others = logits.masked_fill(is_top, -torch.inf).logsumexp(dim=1, keepdim=True)
    of_top = logits.logsumexp(dim=1, keepdim=True) - others
    small = functional.softmax(logits, dim=1).masked_fill(is_top, 0)  # at most a half
    return torch.where(is_top, of_top, -torch.log1p(-small))


def _checked_part(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise InvalidSettingError(
            f"Expected `{name}` to be a share above 0 and up to 1, but got {value!r}."
        )
    return float(value)
