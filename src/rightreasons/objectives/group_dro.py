"""The worst group counts most: group distributionally robust optimisation."""

from __future__ import annotations

import math

import torch
from torch import Tensor, distributed
from torch.nn import functional

from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.objectives.objective import Term
from rightreasons.probe import Probe
from rightreasons.setting import checked_number

__all__ = ["GroupDRO"]


class GroupDRO(Term):
    r"""Cross-entropy with group weights that follow the losses, in place of the plain one.

    .. math:: \sum_g q_g \, \bar\ell_g, \qquad
              q_g \propto q_g \, e^{\eta (\bar\ell_g + C/\sqrt{n_g})}

    where :math:`\bar\ell_g` is the mean loss of the batch's samples in group g. A sample's loss is
    multiplied by :math:`N q_g / N_g`, so that the mean over samples is the sum above; that is the
    one term whose value for a sample depends on its batch. Weights move in training steps only,
    are the same in all processes, and belong to the ``state_dict``.

    Differs from the paper: with ``num_groups=None`` a group gets its weight when it is first seen.

    Args:
        num_groups: How many groups there are; None learns it from the batches.
        step_size: :math:`\eta`; 0.01 in the paper.
        adjustment: :math:`C`; needs ``group_counts``.
        group_counts: :math:`n_g`, training samples in each group.

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
        group_counts: tuple[int, ...] | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(step_size, int | float) or not 0 <= step_size < math.inf:
            raise InvalidSettingError(
                f"Expected `step_size` to be a finite number of at least 0, but got {step_size!r}."
            )
        if num_groups is not None:
            checked_number("num_groups", num_groups)
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

    def forward(self, probe: Probe) -> Tensor:
        """See `Term.forward`."""
        group = self._checked_groups(probe)
        losses = functional.cross_entropy(probe.logits, probe.batch.y, reduction="none")
        known = self._known(int(group.max()) + 1)
        sums, counts = self._totals(group, losses.detach(), known)
        if self.training and torch.is_grad_enabled():
            means = sums / counts.clamp(min=1)
            if self.adjustment and self.group_counts is not None:
                sizes = torch.as_tensor(self.group_counts).to(means)
                means = means + self.adjustment / sizes.clamp(min=1).sqrt()
            known = known + torch.where(counts > 0, self.step_size * means, 0.0)
            self.log_weights = known
        weights = known.softmax(dim=0) / counts.clamp(min=1) * counts.sum()
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

    def _known(self, size: int) -> Tensor:
        """The weights of at least ``size`` groups; a group not seen yet has that of the start."""
        if _distributed():
            largest = torch.tensor(size, device=self.log_weights.device)
            distributed.all_reduce(largest, op=distributed.ReduceOp.MAX)
            size = int(largest)
        new = max(size - len(self.log_weights), 0)
        return torch.cat([self.log_weights, self.log_weights.new_zeros(new)])

    def _totals(self, group: Tensor, losses: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
        zeros = torch.zeros_like(known)
        sums = zeros.index_add(0, group, losses.double())
        counts = zeros.index_add(0, group, torch.ones_like(losses, dtype=torch.float64))
        if _distributed():
            distributed.all_reduce(sums)
            distributed.all_reduce(counts)
        return sums, counts

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *args: object) -> None:
        saved = state.get(f"{prefix}log_weights")
        if saved is not None and self.num_groups is None:
            self.log_weights = torch.zeros_like(saved, device=self.log_weights.device)
        super()._load_from_state_dict(state, prefix, *args)


def _distributed() -> bool:
    return distributed.is_available() and distributed.is_initialized()
