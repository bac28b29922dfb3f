"""Distributionally robust optimisation: the worst group, or the hardest samples."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, distributed
from torch.nn import functional
from typing_extensions import override

from rightreasons.core.checks import check_integer
from rightreasons.core.norms import measure_whole_batch
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.objectives.objective import Term
from rightreasons.objectives.recipe import recipe
from rightreasons.probe.probe import Probe

__all__ = ["CVAR", "GroupDRO", "cvar_dro", "group_dro"]


class GroupDRO(Term):
    r"""Cross-entropy with group weights that follow the losses, in place of the plain one.

    .. math:: \sum_g q_g \, \bar\ell_g, \qquad
              q_g \propto q_g \, e^{\eta (\bar\ell_g + C/\sqrt{n_g})}

    where :math:`\bar\ell_g` is the mean loss of the batch's samples in group g. A sample's loss is
    multiplied by :math:`N q_g / N_g`, so that the mean over samples is the sum above. A sample's
    value therefore depends on its batch. Weights change in training steps only, are the same in
    all processes, and belong to the ``state_dict``.

    Differs from the paper: with ``num_groups=None`` a group gets its weight when it first occurs.

    Args:
        num_groups: Number of groups; None adds groups as batches contain them.
        step_size: :math:`\eta`; 0.01 in the paper.
        adjustment: :math:`C`; needs ``group_counts``.
        group_counts: :math:`n_g`, the number of training samples in each group.

    References:
        sagawa2020distributionally
    """

    is_task = True
    log_weights: Tensor

    def __init__(
        self,
        *,
        num_groups: int | None = None,
        step_size: float = 0.01,
        adjustment: float = 0.0,
        group_counts: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        group_counts = None if group_counts is None else tuple(group_counts)
        if not isinstance(step_size, int | float) or not 0 <= step_size < math.inf:
            raise InvalidSettingError(
                f"Expected `step_size` to be a finite number of at least 0, but got {step_size!r}."
            )
        if num_groups is not None:
            check_integer("num_groups", num_groups)
        if group_counts is not None and num_groups not in (None, len(group_counts)):
            raise InvalidSettingError(
                f"Expected `group_counts` for {num_groups} groups, but got {len(group_counts)}."
            )
        if adjustment and group_counts is None:
            raise InvalidSettingError(
                "Expected `group_counts` beside an `adjustment`, but got none. "
                "Use data.card.train_group_counts."
            )
        self.num_groups = num_groups if group_counts is None else len(group_counts)
        self.step_size = step_size
        self.adjustment = adjustment
        self.group_counts = group_counts
        self.register_buffer("log_weights", torch.zeros(self.num_groups or 0, dtype=torch.float64))

    @override
    def forward(self, probe: Probe) -> Tensor:
        group = self._checked_groups(probe)
        losses = functional.cross_entropy(probe.logits, probe.batch.y, reduction="none")
        log_weights = self._extended_log_weights(int(group.max()) + 1)
        sums, counts = self._totals(group, losses.detach(), len(log_weights))
        if self.training and torch.is_grad_enabled():
            means = sums / counts.clamp(min=1)
            if self.adjustment and self.group_counts is not None:
                sizes = torch.as_tensor(self.group_counts).to(means)
                means = means + self.adjustment / sizes.clamp(min=1).sqrt()
            log_weights = log_weights + torch.where(counts > 0, self.step_size * means, 0.0)
            self.log_weights = log_weights
        weights = log_weights.softmax(dim=0) / counts.clamp(min=1) * counts.sum()
        return losses * weights.to(losses)[group]

    def _checked_groups(self, probe: Probe) -> Tensor:
        group = probe.batch.group
        if group is None or bool((group < 0).any()):
            missing = "no `group`" if group is None else f"{int((group < 0).sum())} unknown groups"
            raise InvalidBatchError(
                f"Expected every sample to have a group, which GroupDRO weighs by, but got "
                f"{missing} in a batch of {len(probe.batch)}. Use data with groups, or a method "
                "that needs none."
            )
        if self.num_groups is not None and int(group.max()) >= self.num_groups:
            raise InvalidBatchError(
                f"Expected groups from 0 to {self.num_groups - 1}, but got {int(group.max())}. "
                "Set `num_groups`."
            )
        return group

    def _extended_log_weights(self, size: int) -> Tensor:
        """The log-weights of at least ``size`` groups; a new group has the initial weight."""
        if _distributed():
            largest = torch.tensor(size, device=self.log_weights.device)
            distributed.all_reduce(largest, op=distributed.ReduceOp.MAX)
            size = int(largest)
        new = max(size - len(self.log_weights), 0)
        return torch.cat([self.log_weights, self.log_weights.new_zeros(new)])

    def _totals(self, group: Tensor, losses: Tensor, num_groups: int) -> tuple[Tensor, Tensor]:
        """The sum of losses and the number of samples of each group, over all processes."""
        zeros = self.log_weights.new_zeros(num_groups)
        sums = zeros.index_add(0, group, losses.double())
        counts = zeros.index_add(0, group, torch.ones_like(losses, dtype=torch.float64))
        if _distributed():
            distributed.all_reduce(sums)
            distributed.all_reduce(counts)
        return sums, counts

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *args: object) -> None:
        # The number of groups was not known when the buffer was made.
        saved = state.get(f"{prefix}log_weights")
        if saved is not None and self.num_groups is None:
            self.log_weights = torch.zeros_like(saved, device=self.log_weights.device)
        super()._load_from_state_dict(state, prefix, *args)


@recipe(GroupDRO)
def group_dro(task: GroupDRO) -> Term:
    """Group DRO: the worst group counts most; needs group labels.

    Example:
        >>> group_dro(num_groups=2).weights
        {'group_dro': 1.0}
    """
    return task


class CVAR(Term):
    r"""Cross-entropy of the samples with the largest losses in each batch: CVaR DRO.

    .. math:: \max_q \sum_n q_n \ell_n \quad\text{with}\quad
              0 \le q_n \le \frac1{\alpha N}, \; \sum_n q_n = 1

    It takes the place of plain cross-entropy. The maximum puts all weight on the :math:`\alpha N`
    largest losses; where that is no whole number, the last one counts in part. A sample's loss is
    multiplied by :math:`N q_n`, so that the mean over samples is the sum above and a sample's value
    depends on its batch.

    Differs from the paper: the plain estimate of a batch, without its multilevel Monte Carlo
    correction for small batches. In several processes N counts the samples of all.

    Args:
        alpha: Share of the batch that counts, above 0; 1 is plain cross-entropy.

    Example:
        >>> from torch import nn
        >>> from rightreasons.types import Batch
        >>> logits = torch.tensor([[9.0, 0.0], [0.0, 0.0]])  # the first sample is easy
        >>> batch = Batch(x=logits, y=torch.tensor([0, 0]))
        >>> CVAR(alpha=0.5)(Probe(nn.Identity(), batch))
        tensor([0.0000, 1.3863])

    References:
        levy2020large
    """

    is_task = True

    def __init__(self, *, alpha: float = 0.2) -> None:
        super().__init__()
        if not isinstance(alpha, int | float) or isinstance(alpha, bool) or not 0 < alpha <= 1:
            raise InvalidSettingError(
                f"Expected `alpha` to be a share above 0 and up to 1, but got {alpha!r}."
            )
        self.alpha = float(alpha)

    @override
    def forward(self, probe: Probe) -> Tensor:
        losses = functional.cross_entropy(probe.logits, probe.batch.y, reduction="none")
        return measure_whole_batch(self._keep_largest, losses)

    def _keep_largest(self, losses: Tensor) -> Tensor:
        order = losses.detach().argsort(descending=True, stable=True)
        # Of alpha N samples in all, how much is left for each in this order: 1, ..., 1, a part, 0.
        left = self.alpha * len(losses) - torch.arange(len(losses), device=losses.device)
        factors = torch.zeros_like(losses)
        factors[order] = left.clamp(0, 1).to(losses) / self.alpha
        return losses * factors


@recipe(CVAR)
def cvar_dro(task: CVAR) -> Term:
    """CVaR DRO: the hardest share of each batch counts alone; needs no groups.

    Example:
        >>> cvar_dro(alpha=0.1).weights
        {'cvar': 1.0}
    """
    return task


def _distributed() -> bool:
    return distributed.is_available() and distributed.is_initialized()
