"""ReFF with the distance of map and annotation, squared."""

from __future__ import annotations

from typing import final

from torch import Tensor

from rightreasons.norm import sample_norm
from rightreasons.objectives.cam_term import CamTerm

__all__ = ["ReFFL2"]


@final
class ReFFL2(CamTerm):
    r"""The squared distance of normalised Grad-CAM maps and what is outside the mask.

    .. math:: \sum_l w_l \, \lVert I'_l - (1 - m) \rVert_2^2

    with the maps of `CamTerm`. Unit: pixels. Since maps sum to 1, each distance is, for a mask of
    zeros and ones, the number of pixels outside it, less 2, plus twice the map's share inside it,
    plus the map's own squared norm, which is small: almost `ReFFL1`. If not given, the weights
    are 1.

    Differs from the paper: its weights are ``(15, 60, 250, 1000)``, with 1e-6 on the sum.

    Args:
        layers: See `CamTerm`.
        layer_weights: See `CamTerm`.
        target: See `CamTerm`.
        ramp: See `CamTerm`.

    References:
        adachi2022learning
    """

    @property
    def name(self) -> str:
        """The name as its recipe spells it."""
        return "reff_l2"

    def distance(self, cam: Tensor, mask: Tensor) -> Tensor:
        """See `CamTerm.distance`."""
        return sample_norm(cam - (1 - mask), "squared_l2")

    def own_weight(self, cells: int, pixels: int) -> float:
        """See `CamTerm.own_weight`."""
        del cells, pixels
        return 1.0
