"""The fraction of an explanation inside the mask: of the input gradient, of a Grad-CAM map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.datasets.dataset import Dataset
from rightreasons.explainers import GradCAM
from rightreasons.explainers.feature_maps import Reshape, checked_reshape
from rightreasons.explainers.spatial_layers import last_spatial_layer
from rightreasons.metrics.metric import (
    Metric,
    Rows,
    bootstrap_means,
    percentile_interval,
    refuse_without_masks,
)
from rightreasons.probe.probe import Probe
from rightreasons.types import Target

__all__ = ["CamMass", "InputGradientMass", "MassMetric", "mass_rows", "mass_summary"]


class MassMetric(Metric):
    """A metric of the fraction of a map that lies inside the mask."""

    higher_is_better = False

    def prepare(self, data: Dataset) -> None:
        """Refuse data without masks."""
        refuse_without_masks(self, data)

    @override
    def summary(self, rows: Rows) -> dict[str, float]:
        return mass_summary(rows)


@final
class CamMass(MassMetric):
    r"""The fraction of a Grad-CAM map inside the mask: what ReFF makes small.

    .. math:: \frac{\sum_{ij} m_{ij} \, I_{ij}(x)}{\sum_{ij} I_{ij}(x)}

    averaged over samples whose mask is not empty and whose map is not zero. 0 is no reliance. A
    constant map has the mask's fraction of the pixels, which is given as ``cam_mass/area``.
    ``cam_mass/n`` is the number of samples: a map without a positive part says nothing, and such
    samples are many in some nets.

    Args:
        layer: Name of the layer whose maps are measured; None is the last one that has any. With
            several names a sample's fraction is the mean over those whose map is not zero.
        target: What is differentiated.
        reshape: How the layer's output becomes maps, see `ClassActivation`; None finds it out.

    References:
        adachi2022learning
    """

    name = "cam_mass"

    def __init__(
        self,
        *,
        layer: str | Sequence[str] | None = None,
        target: Target | str = Target.LOGIT,
        reshape: Reshape | None = None,
    ) -> None:
        super().__init__()
        self.layer, self.reshape = layer, checked_reshape(reshape)
        self.target = Target(target)
        self._explainer: GradCAM | None = None

    def prepare(self, data: Dataset) -> None:
        """Refuse data without masks, and forget the last model's layer."""
        super().prepare(data)
        self._explainer = None

    @override
    def measure(self, probe: Probe) -> Rows:
        if self._explainer is None:  # one model is measured between two calls of `prepare`
            layer = self.layer or last_spatial_layer(probe.model, probe.features.detach())
            self._explainer = GradCAM(layers=layer, target=self.target, reshape=self.reshape)
        cam = self._explainer(probe.model, probe.features.detach(), probe.batch.y)
        if cam.shape[1] > 1:
            total = cam.sum(dim=(2, 3), keepdim=True)
            cam = cam / torch.where(total == 0, 1, total)
        return mass_rows(cam, probe.mask.mean(dim=1, keepdim=True))


@final
class InputGradientMass(MassMetric):
    r"""Fraction of the input gradient's magnitude inside the mask: the simplest reliance score.

    .. math:: \frac{\sum_d m_d \, |\partial_d t(x)|}{\sum_d |\partial_d t(x)|}

    averaged over samples whose mask is not empty and whose gradient is not zero. 0 is no reliance.
    A model that relies on all features alike has the mask's fraction of the features, which is
    given as ``input_gradient_mass/area``. ``input_gradient_mass/n`` is the number of samples. A
    model whose gradient is zero at every sample relies on nothing: it has 0, of 0 samples.

    Args:
        target: What is differentiated. The logit, not the loss: the loss of a confident model has
            gradients that vanish in floating point.
    """

    name = "input_gradient_mass"
    takes_texts = True
    needs_gradient = True

    def __init__(self, *, target: Target | str = Target.LOGIT) -> None:
        super().__init__()
        self.target = Target(target)

    @override
    def measure(self, probe: Probe) -> Rows:
        inputs = probe.batch.inputs if probe.batch.has_padding else None
        counts = None if inputs is None else inputs["attention_mask"][..., None]
        return mass_rows(probe.gradient(self.target).abs(), probe.mask, counts)


def mass_rows(size: Tensor, mask: Tensor, counts: Tensor | None = None) -> Rows:
    """The fraction of each sample's map that lies inside the mask.

    Args:
        size: Maps without negative values, ``(N, *S)``.
        mask: Masks, which broadcast to ``size``.
        counts: Which features there are, and are not padding; None is all.

    Returns:
        ``mass``, the fraction; ``area``, the mask's fraction of the map; ``total``, the map's sum.

    Example:
        >>> rows = mass_rows(torch.tensor([[1.0, 3.0]]), torch.tensor([[0.0, 1.0]]))
        >>> rows["mass"], rows["area"]
        (tensor([0.7500], dtype=torch.float64), tensor([0.5000], dtype=torch.float64))
    """
    size = size.double()
    mask = mask.expand_as(size).double()
    total = size.flatten(1).sum(dim=1)
    inside = (mask * size).flatten(1).sum(dim=1)
    area = mask.flatten(1).mean(dim=1)
    if counts is not None:
        there = counts.expand_as(size).double()
        area = (mask * there).flatten(1).sum(dim=1) / there.flatten(1).sum(dim=1).clamp(min=1)
    return {"mass": inside / torch.where(total == 0, 1.0, total), "area": area, "total": total}


def mass_summary(rows: Rows) -> dict[str, float]:
    """The mean fraction over samples with a mask and a map, its interval, and the mask's area."""
    masked = rows["area"] > 0
    if not bool(masked.any()):
        return {"area": 0.0, "n": 0.0}
    counts = masked & (rows["total"] != 0)  # NaN counts, so that it shows
    if not bool(counts.any()):
        return {"": 0.0, "area": float(rows["area"][masked].mean()), "n": 0.0}
    mass, area = rows["mass"][counts], rows["area"][counts].mean()
    low, high = percentile_interval(bootstrap_means(mass.numpy()))
    bounds = {"low": low, "high": high}
    return {"": float(mass.mean()), **bounds, "area": float(area), "n": float(counts.sum())}
