"""The base of terms that move masked features within a box, and the ramp that grows a setting."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from typing_extensions import TypedDict, override

from rightreasons.core.checks import (
    check_choice,
    check_fraction,
    check_integer,
    check_range,
    positive_float,
)
from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives.auto_weight import Widening
from rightreasons.objectives.objective import Term
from rightreasons.probe.masked import MaskedFeatures
from rightreasons.types import Interval

__all__ = ["BoxSettings", "Ramp", "RobustTerm", "Shape"]

Shape = Literal["linear", "geometric"]
FIRST_FACTOR = 1e-5
"""Where a geometric ramp begins; a factor of 0 would never grow."""
MEASURED_EVERY = 5
"""Passes of a ramp between two that an automatic weight measures, since each costs two passes."""


class Ramp(nn.Module):
    r"""A factor that grows from 0 to 1 over a part of training, linearly or geometrically.

    .. math:: f(t) = \frac{t - s}{e - s} \quad\text{or}\quad
        f(t) = f_0^{\,1 - (t - s) / (e - s)}, \qquad s \le t \le e

    at the share t of training; 0 before s and 1 after e.

    Bounds over a whole box can outweigh the task before the model has learnt anything. With a ramp
    the box grows while the model learns. Bounds of a deep net grow with the box by many orders of
    magnitude, so that a box which grows linearly is too wide after its first step. Such a net
    begins without a box and has one that grows geometrically. The position is in ``state_dict()``,
    so a resumed run continues from it.

    Args:
        share: Share e of training after which the factor is 1, from 0 (it is 1 at once) to below
            1.
        start: Share s of training for which the factor stays 0; below ``share``.
        shape: ``"linear"`` or ``"geometric"``, which begins at :math:`f_0 = 10^{-5}`.

    Example:
        >>> ramp = Ramp(0.5)
        >>> ramp.prepare(num_passes=4)
        >>> [ramp.advanced() for _ in range(4)]
        [0.0, 0.5, 1.0, 1.0]
    """

    num_passes: Tensor
    passed: Tensor

    def __init__(self, share: float, *, start: float = 0.0, shape: Shape = "linear") -> None:
        super().__init__()
        self.share = check_fraction("ramp", share, below_one=True)
        self.start = check_fraction("ramp_start", start, below_one=True)
        self.shape = check_choice("ramp_shape", shape, ("linear", "geometric"))
        if self.start and self.start >= self.share:
            raise InvalidSettingError(
                f"Expected `ramp_start` below `ramp`, where the ramp ends, but got {start:g} and "
                f"{share:g}. Set an earlier start or a later end."
            )
        self.register_buffer("num_passes", torch.tensor(0))
        self.register_buffer("passed", torch.tensor(0))

    def prepare(self, num_passes: int) -> None:
        """Set the number of passes in training; `fit` does this."""
        self.num_passes.fill_(check_integer("num_passes", num_passes))

    def advanced(self) -> float:
        """The factor for this pass; in train mode with gradients the ramp then advances."""
        if not self.share:
            return 1.0
        if not int(self.num_passes):
            raise InvalidSettingError(
                "Expected to know how long training is before a ramp begins, but nobody said. Call "
                "objective.prepare(data, num_passes=...) before the first step; fit() does."
            )
        factor = self.factor(int(self.passed))
        if self.training and torch.is_grad_enabled():
            self.passed += 1
        return factor

    def factor(self, passed: int) -> float:
        """The factor after this number of passes."""
        begin, end = (share * int(self.num_passes) for share in (self.start, self.share))
        if passed < begin:
            return 0.0
        grown = min(1.0, (passed - begin) / (end - begin))
        return grown if self.shape == "linear" else float(FIRST_FACTOR ** (1 - grown))


class BoxSettings(TypedDict, total=False):
    """Settings of `RobustTerm` that its members pass on."""

    valid_range: tuple[float, float] | None
    ramp: float
    ramp_start: float
    ramp_shape: Shape


class RobustTerm(Widening, Term):
    r"""A term over :math:`\{x' : |x' - x| \le \epsilon m\}`, cut to the valid range.

    Args:
        epsilon: Half the box's width where the mask is 1, in input units. None lets masked
            features take every valid value. For texts None is the box around the embeddings of the
            word list of the data.
        valid_range: Smallest and largest value of a feature. None takes the range of the data from
            `fit` or ``prepare``, and is no limit without them.
        ramp: Share of training after which epsilon has its value, see `Ramp`.
        ramp_start: Share of training before which the box has no width.
        ramp_shape: ``"linear"`` or ``"geometric"`` growth in between.
    """

    needs_gradient = "inside"

    def __init__(
        self,
        *,
        epsilon: float | None,
        valid_range: tuple[float, float] | None = None,
        ramp: float = 0.0,
        ramp_start: float = 0.0,
        ramp_shape: Shape = "linear",
    ) -> None:
        super().__init__()
        self.epsilon = None if epsilon is None else positive_float("epsilon", epsilon)
        self.valid_range = None if valid_range is None else check_range(valid_range)
        self._range = self.valid_range
        self._substitutes: tuple[int, ...] = ()
        self.ramp = Ramp(ramp, start=ramp_start, shape=ramp_shape)

    @override
    def prepare(self, data: Dataset, *, num_passes: int) -> None:
        self._range = self.valid_range or data.card.feature_range
        self._substitutes = () if data.card.text is None else data.card.text.substitutes
        self.ramp.prepare(num_passes)

    def box(self, masked: MaskedFeatures) -> Interval:
        """The box of the masked features at this point of training; the ramp advances."""
        factor = self.ramp.advanced()
        self.is_grown = factor == 1.0
        self.is_due = self.is_grown or int(self.ramp.passed) % MEASURED_EVERY == 0
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
