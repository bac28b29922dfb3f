"""Quality of predicted masks, and the annotator's certainty about them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import final

import torch
from torch import Tensor

from rightreasons.annotators.hand_masks import CHUNK, find_annotated, merge_channels
from rightreasons.annotators.losses import dice
from rightreasons.core.checks import check_integer
from rightreasons.datasets import Dataset
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Batch

__all__ = ["MaskQuality", "confidence", "iou", "mask_quality", "mask_uncertainty"]

THRESHOLD = 0.5


def mask_uncertainty(soft: Tensor) -> Tensor:
    r"""The mean binary entropy of a soft mask's pixels, in bits, ``(N,)``: 0 to 1.

    .. math:: -\frac{1}{HW} \sum_i \bigl( p_i \log_2 p_i + (1 - p_i) \log_2 (1 - p_i) \bigr)

    Args:
        soft: ``(N, ...)`` in [0, 1].

    Example:
        >>> mask_uncertainty(torch.tensor([[0.5, 1.0], [0.0, 1.0]]))
        tensor([0.5000, 0.0000])
    """
    other = 1 - soft
    nats = -(torch.xlogy(soft, soft) + torch.xlogy(other, other))
    return (nats.flatten(1).mean(dim=1) / math.log(2)).clamp(0, 1)


def confidence(soft: Tensor) -> Tensor:
    """One minus `mask_uncertainty`, ``(N, 1, 1, 1)``, as a weight of masks ``(N, 1, H, W)``.

    Example:
        >>> confidence(torch.full((1, 1, 2, 2), 0.5)).item()
        0.0
    """
    return (1 - mask_uncertainty(soft)).reshape(-1, 1, 1, 1)


def iou(soft: Tensor, mask: Tensor) -> Tensor:
    r"""Intersection over union of two masks, for each sample: 0 to 1.

    .. math:: \frac{\sum_i \min(p_i, m_i)}{\sum_i \max(p_i, m_i)}

    Args:
        soft: ``(N, ...)`` in [0, 1].
        mask: The true mask, in the same shape.

    Returns:
        ``(N,)``; 1 where both are empty.

    Example:
        >>> iou(torch.tensor([[1.0, 0.5]]), torch.tensor([[1.0, 0.0]]))
        tensor([0.6667])
    """
    both = torch.minimum(soft, mask).flatten(1).sum(dim=1)
    either = torch.maximum(soft, mask).flatten(1).sum(dim=1)
    return torch.where(either > 0, both / either.clamp_min(torch.finfo(either.dtype).tiny), 1.0)


@final
class MaskQuality:
    r"""Compares predicted masks with annotations, batch by batch.

    ::

        iou                 mean over samples, of masks cut at 0.5; 1 if both masks are empty
        marked_iou          the same over samples whose annotation is not empty; left out if
                            there are none
        relevant_iou        the same of the area outside the masks, the paper's annotation
        soft_iou            IoU of the masks before the cut
        dice                Dice overlap of masks cut at 0.5
        calibration_error   expected calibration error over pixels, with bins of equal width
        num_masks           number of masks
        num_marked          number of masks that are not empty

    .. math:: \mathrm{ECE} = \sum_b \frac{n_b}{n} \lvert \bar p_b - \bar m_b \rvert

    Args:
        num_bins: Number of equal bins of [0, 1] for the calibration error.

    Example:
        >>> quality = MaskQuality()
        >>> quality.update(torch.full((1, 1, 2, 2), 0.9), torch.ones(1, 1, 2, 2))
        >>> values = quality.values()
        >>> values["iou"], round(values["soft_iou"], 6), round(values["calibration_error"], 6)
        (1.0, 0.9, 0.1)
    """

    def __init__(self, *, num_bins: int = 15) -> None:
        self.num_bins = check_integer("num_bins", num_bins)
        self._rows: dict[str, list[Tensor]] = {}
        self._gaps = torch.zeros(num_bins, dtype=torch.float64)
        self._num_pixels = 0

    def update(self, soft: Tensor, mask: Tensor) -> None:
        """Add predicted masks and annotations, both ``(N, 1, H, W)``."""
        soft, mask = soft.double().cpu(), mask.double().cpu()
        cut, truth = (soft > THRESHOLD).double(), (mask > THRESHOLD).double()
        measured = {
            "iou": iou(cut, truth),
            "relevant_iou": iou(1 - cut, 1 - truth),
            "soft_iou": iou(soft, mask),
            "dice": dice(cut, truth, smoothing=torch.finfo(cut.dtype).tiny),
        }
        marked = truth.flatten(1).any(dim=1)
        measured["marked_iou"] = measured["iou"][marked]
        for name, values in measured.items():
            self._rows.setdefault(name, []).append(values)
        bins = (soft * self.num_bins).long().clamp(max=self.num_bins - 1).flatten()
        self._gaps.index_add_(0, bins, (soft - mask).flatten())
        self._num_pixels += soft.numel()

    def values(self) -> dict[str, float]:
        """The measured values; raises if there are none."""
        if not self._num_pixels:
            raise InvalidSettingError(
                "Expected annotated samples to measure masks on, but got none. Hold some "
                "annotations out."
            )
        joined = {name: torch.cat(rows) for name, rows in self._rows.items()}
        values = {name: float(rows.mean()) for name, rows in joined.items() if len(rows)}
        values["calibration_error"] = float(self._gaps.abs().sum()) / self._num_pixels
        counts = {"num_masks": len(joined["iou"]), "num_marked": len(joined["marked_iou"])}
        return {**values, **counts}


def mask_quality(
    data: Dataset,
    predicted: Callable[[Batch], Tensor],
    *,
    places: Tensor | None = None,
    num_bins: int = 15,
) -> dict[str, float]:
    """Compare predicted masks with the annotations of a data set, see `MaskQuality`.

    Args:
        data: Images with masks.
        predicted: Gives soft masks of a batch: ``lambda batch: annotator.masks(batch.x)``.
        places: Indices of samples; None takes all that are annotated. Leave out the samples that
            the annotator learned from.
        num_bins: Number of bins for the calibration error.
    """
    if places is None:
        places = find_annotated(data).nonzero().flatten()
    quality = MaskQuality(num_bins=num_bins)
    for batch in data.batches(torch.split(places, CHUNK)) if len(places) else ():
        quality.update(predicted(batch), merge_channels(batch))
    return quality.values()
