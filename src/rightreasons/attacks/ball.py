"""The set an attack on predictions searches: a ball around each sample, within the valid range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rightreasons.core.checks import check_choice, check_range, positive_float
from rightreasons.core.rng import sample_noise

__all__ = ["NORMS", "Ball", "BallNorm", "per_sample"]

BallNorm = Literal["linf", "l2"]
NORMS: tuple[BallNorm, ...] = ("linf", "l2")


@dataclass(frozen=True, kw_only=True)
class Ball:
    r"""All :math:`x'` with :math:`\lVert x' - x \rVert_p \le \epsilon` that are valid inputs.

    Args:
        epsilon: The radius, in input units.
        norm: ``"linf"`` bounds each feature, ``"l2"`` all features of a sample together.
        valid_range: Smallest and largest value of a feature; None is no limit. A feature
            outside the range may keep its value.

    Example:
        >>> ball = Ball(epsilon=0.5, norm="l2", valid_range=None)
        >>> ball.project(torch.tensor([[3.0, 4.0]]), torch.zeros(1, 2))
        tensor([[0.3000, 0.4000]])
    """

    epsilon: float
    norm: BallNorm = "linf"
    valid_range: tuple[float, float] | None = (0.0, 1.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_float("epsilon", self.epsilon))
        object.__setattr__(self, "norm", check_choice("norm", self.norm, NORMS))
        if self.valid_range is not None:
            object.__setattr__(self, "valid_range", check_range(self.valid_range))

    def project(self, point: Tensor, x: Tensor) -> Tensor:
        """Project each point to the ball around ``x``, ``(N, *S)``.

        With ``"l2"`` it is projected to the ball first and to the range second, which does not
        leave the ball.
        """
        if self.norm == "linf":
            inside = point.clamp(x - self.epsilon, x + self.epsilon)
        else:
            moves = point - x
            inside = x + moves * (self.epsilon / _lengths(moves).clamp(min=self.epsilon))
        if self.valid_range is None:
            return inside
        low, high = self.valid_range
        return inside.clamp(x.clamp(max=low), x.clamp(min=high))

    def direction(self, slope: Tensor) -> Tensor:
        """The steepest step of length 1 in this norm for the gradient ``slope``, ``(N, *S)``."""
        if self.norm == "linf":
            return slope.sign()
        # The squares of tiny slopes would vanish: divide by the largest entry first.
        largest = per_sample(slope.flatten(1).abs().amax(dim=1), slope)
        scaled = slope / torch.where(largest == 0, 1, largest)
        length = _lengths(scaled)
        return scaled / torch.where(length == 0, 1, length)

    def draw(self, x: Tensor, *, index: Tensor | None = None, seed: int = 0) -> Tensor:
        """Draw a point uniformly from each ball, then clamp it to the valid range.

        Args:
            x: The samples, ``(N, *S)``.
            index: ``(N,)``: the samples' numbers; then the draw depends on them and the seed
                alone. None draws from the global random state.
            seed: Random seed for the draws by ``index``.
        """
        if self.norm == "linf":
            noise = _noise(x, x.shape[1:], index, seed, "uniform")
            return self.project(x + self.epsilon * (2 * noise - 1), x)
        # D coordinates of a point drawn from the sphere in D + 2 dimensions fill the ball evenly.
        size = x[0].numel() if len(x) else 0
        noise = _noise(x, (size + 2,), index, seed, "normal")
        moves = (noise / _lengths(noise))[:, :size].reshape(x.shape)
        return self.project(x + self.epsilon * moves, x)

    projected, drawn = project, draw
    """The former names of `project` and `draw`."""


def per_sample(column: Tensor, like: Tensor) -> Tensor:
    """View ``(N,)`` with axes that broadcast to the samples ``like``, ``(N, *S)``."""
    return column.view(-1, *(1,) * (like.ndim - 1))


def _noise(
    x: Tensor,
    shape: tuple[int, ...],
    index: Tensor | None,
    seed: int,
    kind: Literal["uniform", "normal"],
) -> Tensor:
    if index is not None:
        return sample_noise(index, shape, num_draws=1, seed=seed, kind=kind)[0].to(x)
    draw = torch.rand if kind == "uniform" else torch.randn
    return draw((len(x), *shape), dtype=x.dtype, device=x.device)


def _lengths(values: Tensor) -> Tensor:
    """Each sample's length, with axes that broadcast to it."""
    lengths: Tensor = torch.linalg.vector_norm(values.flatten(1), dim=1)
    return per_sample(lengths, values)
