"""The base of terms that move masked features within a box, and the ramp that grows a setting."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from typing_extensions import TypedDict, override

from rightreasons.core.checks import check_fraction, check_integer, check_range, positive_float
from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives.objective import Term
from rightreasons.probe.masked import MaskedFeatures
from rightreasons.types import Interval

__all__ = ["BoxSettings", "Ramp", "RobustTerm"]


class Ramp(nn.Module):
    """A factor that grows linearly from 0 to 1 over the first part of training.

    Bounds over a whole box can outweigh the task before the model has learnt anything. With a ramp
    the box grows while the model learns. The position is in ``state_dict()``, so a resumed run
    continues from it.

    Args:
        share: Share of training in which the factor grows, from 0 (it is 1 at once) to below 1.

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
        self.share = check_fraction("ramp", share, below_one=True)
        self.register_buffer("num_passes", torch.tensor(0))
        self.register_buffer("passed", torch.tensor(0))

    def prepare(self, num_passes: int) -> None:
        """Set the number of passes in training; `fit` does this."""
        self.num_passes.fill_(check_integer("num_passes", num_passes))

    def advanced(self) -> float:
        """The factor for this pass; in train mode with gradients the ramp then advances."""
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


class BoxSettings(TypedDict, total=False):
    """Settings of `RobustTerm` that its members pass on."""

    valid_range: tuple[float, float] | None
    ramp: float


class RobustTerm(Term):
    r"""A term over :math:`\{x' : |x' - x| \le \epsilon m\}`, cut to the valid range.

    Args:
        epsilon: Half the box's width where the mask is 1, in input units. None lets masked
            features take every valid value. For texts None is the box around the embeddings of the
            word list of the data.
        valid_range: Smallest and largest value of a feature. None takes the range of the data from
            `fit` or ``prepare``, and is no limit without them.
        ramp: Share of training over which epsilon grows to its value.
    """

    needs_gradient = "inside"

    def __init__(
        self,
        *,
        epsilon: float | None,
        valid_range: tuple[float, float] | None = None,
        ramp: float = 0.0,
    ) -> None:
        super().__init__()
        self.epsilon = None if epsilon is None else positive_float("epsilon", epsilon)
        self.valid_range = None if valid_range is None else check_range(valid_range)
        self._range = self.valid_range
        self._substitutes: tuple[int, ...] = ()
        self.ramp = Ramp(ramp)

    @override
    def prepare(self, data: Dataset, *, num_passes: int) -> None:
        self._range = self.valid_range or data.card.feature_range
        self._substitutes = () if data.card.text is None else data.card.text.substitutes
        self.ramp.prepare(num_passes)

    def box(self, masked: MaskedFeatures) -> Interval:
        """The box of the masked features at this point of training; the ramp advances."""
        factor = self.ramp.advanced()
        if self.epsilon is not None:
            return masked.box(factor * self.epsilon, self._range)
        if self._substitutes:
            lower, upper = masked.substitute_box(self._substitutes)
        else:
            lower, upper = masked.box(None, self._range)
        if factor == 1.0:
            return Interval(lower, upper)
        values = masked.values
        return Interval(values + factor * (lower - values), values + factor * (upper - values))
