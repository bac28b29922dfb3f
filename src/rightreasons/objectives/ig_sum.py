"""IG-SUM-NORM: adversarial training and small integrated gradients in one."""

from __future__ import annotations

from torch import Tensor

from rightreasons.errors import InvalidSettingError
from rightreasons.norm import sample_norm
from rightreasons.objectives.ball_term import BallTerm
from rightreasons.objectives.path_attribution import path_attribution
from rightreasons.probe import Probe
from rightreasons.setting import checked_number

__all__ = ["IGSum"]


class IGSum(BallTerm):
    r"""The largest rise of the loss near the sample, together with how it is spread.

    .. math:: \max_{\lVert x' - x \rVert_\infty \le \epsilon} \ell(x') - \ell(x)
        + \beta \lVert \mathrm{IG}^\ell(x, x') \rVert_1

    The rise is the sum of the integrated gradients. Added to cross-entropy with weight 1 it is
    the paper's IG-SUM-NORM, :math:`\ell(x') + \beta \lVert \mathrm{IG} \rVert_1`; with
    :math:`\beta = 0`, adversarial training. Unit: nats.

    Differs from the paper: as `IGNorm`. The rise is the exact one, not the integral's.

    Args:
        norm_weight: :math:`\beta`, at least 0; 1 in the paper's code for traffic signs.
        num_segments: See `IGNorm`.
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
        norm_weight: float = 1.0,
        num_segments: int = 5,
        epsilon: float = 8 / 255,
        num_steps: int = 7,
        step_size: float = 0.125,
        valid_range: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon, num_steps=num_steps, step_size=step_size, valid_range=valid_range
        )
        if isinstance(norm_weight, bool) or not 0 <= norm_weight < float("inf"):
            raise InvalidSettingError(
                f"Expected `norm_weight` to be a finite number of at least 0, but got "
                f"{norm_weight!r}."
            )
        self.norm_weight = float(norm_weight)
        self.num_segments = checked_number("num_segments", num_segments)

    def criterion(self, probe: Probe, points: Tensor, *, create_graph: bool) -> Tensor:
        """See `BallTerm.criterion`."""
        attribution = path_attribution(
            probe, points, num_segments=self.num_segments, create_graph=create_graph
        )
        return attribution.rise + self.norm_weight * sample_norm(attribution.parts, "l1")
