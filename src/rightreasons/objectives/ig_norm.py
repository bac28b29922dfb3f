"""IG-NORM: no point near a sample is far from it in integrated gradients of the loss."""

from __future__ import annotations

from torch import Tensor

from rightreasons.norm import sample_norm
from rightreasons.objectives.ball_term import BallTerm
from rightreasons.objectives.path_attribution import path_attribution
from rightreasons.probe import Probe
from rightreasons.setting import checked_number

__all__ = ["IGNorm"]


class IGNorm(BallTerm):
    r"""The largest integrated gradients of the loss towards a point near the sample.

    .. math:: \max_{\lVert x' - x \rVert_\infty \le \epsilon} \lVert \mathrm{IG}^\ell(x, x')
        \rVert_1

    where :math:`\mathrm{IG}^\ell(x, x')` splits the rise of the loss from x to x' into features,
    see `path_attribution`. Unit: nats.

    Differs from the paper: the integral is a trapezoid sum of few segments, in the search and in
    the penalty; the paper's code has 5 in the search and 50 in the penalty.

    Args:
        num_segments: Of the trapezoid rule.
        epsilon: See `BallTerm`; 8/255 in the paper, for colour images.
        num_steps: See `BallTerm`; 7 in the paper.
        step_size: See `BallTerm`; 2/255 in the paper.
        valid_range: See `BallTerm`.

    References:
        chen2019robust
    """

    def __init__(
        self,
        *,
        num_segments: int = 5,
        epsilon: float = 8 / 255,
        num_steps: int = 7,
        step_size: float = 0.125,
        valid_range: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon, num_steps=num_steps, step_size=step_size, valid_range=valid_range
        )
        self.num_segments = checked_number("num_segments", num_segments)

    def criterion(self, probe: Probe, points: Tensor, *, create_graph: bool) -> Tensor:
        """See `BallTerm.criterion`."""
        attribution = path_attribution(
            probe, points, num_segments=self.num_segments, create_graph=create_graph
        )
        return sample_norm(attribution.parts, "l1")
