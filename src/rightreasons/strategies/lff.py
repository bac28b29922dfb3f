"""Learning from failure: samples that a biased model gets wrong count more for another."""

from __future__ import annotations

import copy
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from rightreasons.core.checks import check_fraction, positive_float
from rightreasons.core.norms import gather_rows
from rightreasons.datasets import Dataset
from rightreasons.errors import InvalidBatchError
from rightreasons.objectives import Objective, Term, with_task
from rightreasons.probe.probe import Probe
from rightreasons.strategies.strategy import Stages, Strategy

__all__ = ["LFF", "RelativeDifficulty"]


class RelativeDifficulty(Term):
    r"""The losses of both models of learning from failure, for a `Pair`.

    .. math:: \frac{1 - p_B(y \mid x)^q}{q} + W(x) \, \ell_D(x), \qquad
              W(x) = \frac{\bar\ell_B(x)}{\bar\ell_B(x) + \bar\ell_D(x)}

    The first summand, generalised cross-entropy, makes the biased model B more confident on easy
    samples. W has no gradient. It is large where B fails and the debiased model D does not. Both
    losses in W are averages over the epochs, for each sample.

    Args:
        q: Exponent of generalised cross-entropy, above 0; 0.7 in the paper.
        decay: Weight of the average so far when a sample is seen again; 0.7 in the paper.
    """

    is_task = True
    layers = ("biased",)
    averages: Tensor

    def __init__(self, *, q: float = 0.7, decay: float = 0.7) -> None:
        super().__init__()
        self.q = positive_float("q", q)
        self.decay = check_fraction("decay", decay, below_one=True)
        self.register_buffer("averages", torch.zeros(0, 2))

    @override
    def prepare(self, data: Dataset, *, num_passes: int) -> None:
        del num_passes
        self.averages = torch.full((len(data), 2), torch.nan)

    @override
    def forward(self, probe: Probe) -> Tensor:
        y = probe.batch.y
        biased = probe.activations["biased"]
        losses = functional.cross_entropy(probe.logits, y, reduction="none")
        both = torch.stack([functional.cross_entropy(biased, y, reduction="none"), losses], dim=1)
        average = self._update_averages(probe, both.detach())
        difficulty = average[:, 0] / average.sum(dim=1).clamp(min=1e-8)
        probability = functional.softmax(biased, dim=1).gather(1, y[:, None]).squeeze(1)
        easy = (1 - probability.clamp(min=1e-8) ** self.q) / self.q
        return easy + difficulty * losses

    def _update_averages(self, probe: Probe, both: Tensor) -> Tensor:
        index = probe.batch.index
        if index is None or not len(self.averages):
            if self.training and index is None:
                raise InvalidBatchError(
                    "Expected a batch with `index`, by which losses are averaged over epochs, but "
                    "got none. Take batches from a data set, as `fit` does."
                )
            return both
        before = self.averages[index].to(both)
        average = torch.where(before.isnan(), both, torch.lerp(both, before, self.decay))
        if self.training and torch.is_grad_enabled():
            # Another process may have these samples in the next epoch.
            rows, values = (torch.cat(gather_rows(one)) for one in (index, average))
            self.averages[rows] = values.to(self.averages)
        return average


class Pair(nn.Module):
    """Two models that see the same samples; the logits are those of the second.

    Args:
        biased: The model that learns the shortcut.
        debiased: The model to use.
    """

    def __init__(self, biased: nn.Module, debiased: nn.Module) -> None:
        super().__init__()
        self.biased = biased
        self.debiased = debiased

    def forward(self, x: Tensor, **others: Tensor) -> Tensor:
        """Logits of the second model; a hook can record those of the first."""
        self.biased(x, **others)
        logits: Tensor = self.debiased(x, **others)
        return logits


@final
class LFF(Strategy):
    """LfF: samples that a model with the shortcut gets wrong count more for another model.

    Two models are trained in parallel, in one fit of a `Pair`. They share one optimizer, which is
    the same as two if it treats each weight separately. `RelativeDifficulty` replaces the
    recipe's task. Its penalties stay and act on the second model (weight decay on both). The run
    keeps the second model; the pair is in ``stage-1-pair``.

    Differs from the paper: both start from the same weights. Losses are not divided by their
    largest in each class, which its public code does and its text does not.

    Args:
        q: Exponent of generalised cross-entropy, above 0; 0.7 in the paper.
        decay: Weight of the average so far when a sample is seen again; 0.7 in the paper.

    References:
        nam2020learning
    """

    def __init__(self, *, q: float = 0.7, decay: float = 0.7) -> None:
        self.q = positive_float("q", q)
        self.decay = check_fraction("decay", decay, below_one=True)

    @override
    def run(self, model: nn.Module, objective: Objective, stages: Stages) -> None:
        stages.refuse_parts("LfF")
        stages.refuse_other_tasks("LfF", objective)
        pair = Pair(copy.deepcopy(model), model)
        pair.training = model.training  # its layers stay in their mode
        term = RelativeDifficulty(q=self.q, decay=self.decay)
        stages.fit("pair", pair, with_task(objective, term), stages.data.train)
