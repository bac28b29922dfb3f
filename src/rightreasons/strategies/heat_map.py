"""Heat maps of a whole data set, for the classes a model predicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from rightreasons.datasets import Dataset
from rightreasons.errors import InvalidSettingError
from rightreasons.explainers import EXPLAINERS, Explainer, last_spatial_layer, postprocessed
from rightreasons.probe import placed

__all__ = ["BATCH_SIZE", "MakeExplainer", "heat_maps", "settled_explainer"]

MakeExplainer = Callable[[nn.Module, Tensor], Explainer]
"""From a model and samples it can take to the explainer of all its maps."""

BATCH_SIZE = 250


def settled_explainer(name: str, settings: Mapping[str, Any], layer: str | None) -> MakeExplainer:
    """How to make an explainer; its layer is looked for once, not at every batch.

    Args:
        name: As in `EXPLAINERS`.
        settings: Of the explainer.
        layer: Where a class activation map is read; None is the last with maps of features.
    """
    reads_layer = "layers" in EXPLAINERS.settings(name)
    if layer is not None and not reads_layer:
        raise InvalidSettingError(
            f"Expected an explainer that reads a `layer`, such as xgrad_cam, but got {name!r} "
            f"beside the layer {layer!r}."
        )
    EXPLAINERS.create(name, **settings)  # a wrong setting is told before anything is trained

    def make(model: nn.Module, x: Tensor) -> Explainer:
        if not reads_layer or "layers" in settings:
            return EXPLAINERS.create(name, **settings)
        found = last_spatial_layer(model, x) if layer is None else layer
        return EXPLAINERS.create(name, layers=[found], **settings)

    return make


def heat_maps(
    model: nn.Module, data: Dataset, make: MakeExplainer
) -> Iterator[tuple[Tensor, Tensor]]:
    """The map of each sample for its predicted class, batch by batch, as at test time.

    A class activation map takes one pass, which says the class as well, and goes back to its
    layer only.

    Returns:
        Places ``(n,)`` and maps ``(n, 1, H, W)``: absolute values, summed over channels.
    """
    explainer: Explainer | None = None
    for places, batch in zip(_places(len(data)), data.batches(_places(len(data))), strict=True):
        x = placed(batch, model).x
        if explainer is None:
            explainer = make(model, x)
        yield places, postprocessed(explainer(model, x)).cpu()


def _places(size: int) -> Iterator[Tensor]:
    """Batch by batch: all of them at once would weigh as much as a tenth of the masks."""
    for first in range(0, size, BATCH_SIZE):
        yield torch.arange(first, min(first + BATCH_SIZE, size))
