"""ReFF, relevant feature focusing: no Grad-CAM inside the mask, at several layers."""

from __future__ import annotations

from typing import final

from torch import Tensor

from rightreasons.norm import sample_norm
from rightreasons.objectives.cam_term import CamTerm

__all__ = ["ReFF"]


@final
class ReFF(CamTerm):
    r"""The squared norm of normalised Grad-CAM maps inside the mask, over layers.

    .. math:: \sum_l w_l \, \lVert I'_l \odot m \rVert_2^2

    with the maps of `CamTerm`. Unit: none. With the weights left to it, :math:`w_l = HW / H^lW^l`,
    pixels a cell, a layer gives about :math:`\sum_c (p_c m_c)^2` over its cells, where :math:`p_c`
    is a cell's share of the map: from 0 to 1, whatever the size of images and maps. The paper's
    (15, 60, 250, 1000) are these numbers, rounded, for 224 pixels and blocks of 56, 28, 14 and 7:
    (16, 64, 256, 1024). A map that is spread out evenly has next to no penalty wherever it lies.

    Differs from the paper: it does not say whether maps sum to 1 before or after they are
    resized; here after, which alone makes its weights balance the layers. Where it has
    annotations of what is relevant, the mask is what is not.

    Args:
        layers: See `CamTerm`; the paper's are ``["layer1", "layer2", "layer3", "layer4"]``.
        layer_weights: See `CamTerm`; the paper's are ``(15, 60, 250, 1000)``.
        target: See `CamTerm`.
        ramp: See `CamTerm`.

    Example:
        >>> import torch
        >>> from rightreasons.models import small_cnn
        >>> from rightreasons.types import Batch
        >>> x, mask = torch.rand(2, 3, 28, 28), torch.ones(2, 1, 28, 28)
        >>> batch = Batch(x=x, y=torch.tensor([0, 1]), mask=mask)
        >>> loss = ReFF().as_objective()(small_cnn(classes=2), batch)
        >>> 0 < float(loss.total.detach()) < 4
        True

    References:
        adachi2022learning
    """

    @property
    def name(self) -> str:
        """The name as its recipe spells it."""
        return "reff"

    def distance(self, cam: Tensor, mask: Tensor) -> Tensor:
        """See `CamTerm.distance`."""
        return sample_norm(mask * cam, "squared_l2")

    def own_weight(self, cells: int, pixels: int) -> float:
        """See `CamTerm.own_weight`."""
        return pixels / cells
