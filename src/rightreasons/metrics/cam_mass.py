"""How much of the model's heat map lies where it must not look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch

from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidBatchError
from rightreasons.explainers import GradCAM
from rightreasons.explainers.spatial_layers import last_spatial_layer
from rightreasons.metrics.mass import mass_rows, mass_summary
from rightreasons.metrics.metric import Metric, Rows
from rightreasons.probe import Probe
from rightreasons.target import Target

__all__ = ["CamMass"]


@final
class CamMass(Metric):
    r"""The share of a Grad-CAM map inside the mask: what ReFF makes small.

    .. math:: \frac{\sum_{ij} m_{ij} \, I_{ij}(x)}{\sum_{ij} I_{ij}(x)}

    averaged over samples whose mask is not empty and whose map is not zero. 0 is no reliance; a
    map that is the same everywhere has the mask's share of the pixels, which is given beside it
    as ``cam_mass/area``. ``cam_mass/n`` is the number of samples: a map without a positive part
    says nothing, and such samples are many in some nets.

    Args:
        layer: Name of the layer whose maps are looked at; None is the last one that has any. Of
            several names a sample's share is the mean over those whose map is not zero.
        target: What is differentiated.

    References:
        adachi2022learning
    """

    name = "cam_mass"
    higher_is_better = False

    def __init__(
        self, *, layer: str | Sequence[str] | None = None, target: Target | str = Target.LOGIT
    ) -> None:
        super().__init__()
        self.layer = layer
        self.target = Target(target)
        self._chosen: GradCAM | None = None

    def prepare(self, data: Dataset) -> None:
        """Refuse data without masks."""
        if not data.has_masks:
            raise InvalidBatchError("Expected data with masks for CamMass, but got none.")
        self._chosen = None

    def measure(self, probe: Probe) -> Rows:
        """See `Metric.measure`."""
        if self._chosen is None:  # one model is measured between two calls of `prepare`
            layer = self.layer or last_spatial_layer(probe.model, probe.features.detach())
            self._chosen = GradCAM(layers=layer, target=self.target)
        cam = self._chosen(probe.model, probe.features.detach(), probe.batch.y)
        if cam.shape[1] > 1:
            heat = cam.sum(dim=(2, 3), keepdim=True)
            cam = cam / torch.where(heat == 0, 1, heat)
        return mass_rows(cam, probe.mask.mean(dim=1, keepdim=True))

    def summary(self, rows: Rows) -> dict[str, float]:
        """See `Metric.summary`."""
        return mass_summary(rows)
