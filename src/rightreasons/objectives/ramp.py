"""A setting that grows during the first part of training."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rightreasons.errors import InvalidSettingError
from rightreasons.setting import checked_number, checked_share

__all__ = ["Ramp"]


class Ramp(nn.Module):
    """A factor that grows linearly from 0 to 1 over a share of the passes of training.

    Bounds over a whole box at once can swamp the task before the model has learnt anything; grown
    into, the model keeps up. Its place is in ``state_dict()``, so a resumed run goes on with it.

    Args:
        share: Of training, from 0 (at once) to below 1.

    Example:
        >>> ramp = Ramp(0.5)
        >>> ramp.prepare(num_passes=4)
        >>> [ramp.advanced() for _ in range(4)]
        [0.0, 0.5, 1.0, 1.0]
    """

    num_passes: Tensor
    passed: Tensor

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = checked_share("ramp", share)
        self.register_buffer("num_passes", torch.tensor(0))
        self.register_buffer("passed", torch.tensor(0))

    def prepare(self, num_passes: int) -> None:
        """Say how many passes training has; `fit` does."""
        self.num_passes.fill_(checked_number("num_passes", num_passes))

    def advanced(self) -> float:
        """The factor for this pass; in train mode with gradients the next one is further on."""
        if not self.share:
            return 1.0
        length = self.share * int(self.num_passes)
        if not length:
            raise InvalidSettingError(
                "Expected to know how long training is before a ramp begins, but nobody said. Call "
                "objective.prepare(data, num_passes=...) before the first step; fit() does."
            )
        factor = min(1.0, int(self.passed) / length)
        if self.training and torch.is_grad_enabled():
            self.passed += 1
        return factor
