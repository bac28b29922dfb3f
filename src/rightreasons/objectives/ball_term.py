"""Terms at the worst point of a ball around each sample, found by climbing."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from rightreasons.datasets.dataset import Dataset
from rightreasons.objectives.objective import Term
from rightreasons.probe import Probe
from rightreasons.setting import checked_factor, checked_number, checked_range
from rightreasons.types import Interval

__all__ = ["BallTerm"]


class BallTerm(Term):
    r"""A criterion at :math:`x' \approx \arg\max_{\lVert x' - x \rVert_\infty \le \epsilon}` of it.

    The search begins at a random point of the ball and climbs the criterion itself by signed
    steps. Its end is then held constant, and the criterion there is differentiated.

    Args:
        epsilon: The ball's radius in input units, on every feature.
        num_steps: Steps of the search.
        step_size: As a share of the ball's width (2 epsilon).
        valid_range: Smallest and largest value of a feature. None takes the data's, if `fit` or
            ``prepare`` saw them, and is no limit otherwise.
    """

    needs_gradient = True

    def __init__(
        self,
        *,
        epsilon: float,
        num_steps: int,
        step_size: float,
        valid_range: tuple[float, float] | None,
    ) -> None:
        super().__init__()
        self.epsilon = checked_factor("epsilon", epsilon)
        self.num_steps = checked_number("num_steps", num_steps, low=0)
        self.step_size = checked_factor("step_size", step_size)
        self.valid_range = None if valid_range is None else checked_range(valid_range)
        self._range = self.valid_range

    @abstractmethod
    def criterion(self, probe: Probe, points: Tensor, *, create_graph: bool) -> Tensor:
        """What the search climbs and the term gives: at ``points`` ``(N, *S)`` -> ``(N,)``."""

    def prepare(self, data: Dataset, *, num_passes: int) -> None:
        """See `Term.prepare`."""
        del num_passes
        self._range = self.valid_range or data.card.valid_range

    def forward(self, probe: Probe) -> Tensor:
        """See `Term.forward`."""
        lower, upper = self._ball(probe.features.detach())
        stride = 2 * self.epsilon * self.step_size
        point = torch.lerp(lower, upper, torch.rand_like(lower))
        for _ in range(self.num_steps):
            point = point.requires_grad_()
            with torch.enable_grad():
                slope = _slope(self.criterion(probe, point, create_graph=True), point)
            point = (point.detach() + stride * slope.sign()).clamp(lower, upper)
        return self.criterion(probe, point, create_graph=probe.create_graph)

    def _ball(self, x: Tensor) -> Interval:
        lower, upper = x - self.epsilon, x + self.epsilon
        if self._range is not None:
            low, high = self._range
            # a feature outside the range may stay where it is
            lower, upper = lower.clamp_min(low).minimum(x), upper.clamp_max(high).maximum(x)
        return Interval(lower, upper)


def _slope(values: Tensor, point: Tensor) -> Tensor:
    if not values.requires_grad:  # a gradient that does not change, as a linear net's
        return torch.zeros_like(point)
    (slope,) = torch.autograd.grad(values.sum(), point, allow_unused=True)
    return torch.zeros_like(point) if slope is None else slope
