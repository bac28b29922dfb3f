"""ReFF with the distance of map and annotation, not squared."""

from __future__ import annotations

from typing import final

from torch import Tensor

from rightreasons.norm import sample_norm
from rightreasons.objectives.cam_term import CamTerm

__all__ = ["ReFFL1"]


@final
class ReFFL1(CamTerm):
    r"""The distance of normalised Grad-CAM maps and what is outside the mask, over layers.

    .. math:: \sum_l w_l \, \lVert I'_l - (1 - m) \rVert_1

    with the maps of `CamTerm`. Unit: pixels. Since maps sum to 1 and so are nowhere above 1, each
    distance is the number of pixels outside the mask, less 1, plus twice the map's share inside:
    what is minimised is that share. If not given, the weights are 1.

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
        return "reff_l1"

    def distance(self, cam: Tensor, mask: Tensor) -> Tensor:
        """See `CamTerm.distance`."""
        return sample_norm(cam - (1 - mask), "l1")

    def own_weight(self, cells: int, pixels: int) -> float:
        """See `CamTerm.own_weight`."""
        del cells, pixels
        return 1.0
