"""MaskTune: cover the pixels that the model used, and fine-tune for an epoch."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import override

from rightreasons.core.checks import (
    check_choice,
    check_flag,
    check_fraction,
    check_integer,
    positive_float,
)
from rightreasons.core.files import load_weights_into
from rightreasons.datasets import Dataset, MaskBits, masked_input
from rightreasons.datasets.wrappers import FILLS, Fill, pack_masks
from rightreasons.errors import InvalidSettingError
from rightreasons.explainers import EXPLAINERS, Explainer, last_spatial_layer, postprocessed
from rightreasons.models.selective import AbstainingPair
from rightreasons.objectives import Objective
from rightreasons.probe.probe import move_to_model
from rightreasons.strategies.strategy import Stages, Strategy
from rightreasons.training.distributed import seeded
from rightreasons.training.fit import Fit
from rightreasons.training.settings import DEFAULTS

__all__ = [
    "BATCH_SIZE",
    "RULES",
    "STATISTICS",
    "MakeExplainer",
    "MaskTune",
    "Rule",
    "Statistics",
    "draw_heat_maps",
    "explainer_factory",
    "fine_tune",
    "heat_mask",
    "last_rate",
]

logger = logging.getLogger("rightreasons")

Rule = Literal["deviations", "top", "soft"]
Statistics = Literal["all", "positive"]
RULES: tuple[Rule, ...] = ("deviations", "top", "soft")
STATISTICS: tuple[Statistics, ...] = ("all", "positive")

MakeExplainer = Callable[[nn.Module, Tensor], Explainer]
"""Makes the explainer of a model's maps, from the model and some of its samples."""

BATCH_SIZE = 250


@final
class MaskTune(Strategy):
    r"""MaskTune: train, cover the pixels that the model used, fine-tune for an epoch.

    Each training image is explained for the class the model *predicts*, and covered where its heat
    map :math:`A` exceeds :math:`\tau = \mu + k \sigma` of that map. Fine-tuning on the covered
    images makes the model use other evidence of the label. It needs no masks and no groups.

    .. math:: \hat x = \mathbb 1[A_x \le \tau] \odot x

    Heat maps use the selected weights. Fine-tuning starts from the last weights, at the rate of
    the start of the last epoch. Masks are kept as bits (soft ones as bytes), in memory or mapped
    from a file in the run's folder. The model before fine-tuning stays in ``stage-1-train``.

    Differs from the paper: a map is resized to the input before the cut, as in the public code,
    not after. The public code takes mean and deviation of the positive values alone
    (``statistics="positive"``). The optimizer starts again. Samples other than images are
    refused.

    Args:
        explainer: Name of the explainer of the heat maps; absolute values, summed over channels.
        explainer_settings: Settings of the explainer.
        layer: Layer of a class activation map; None is the last layer with spatial maps.
        rule: How a map becomes a mask, see `heat_mask`.
        k: Number of deviations for ``rule="deviations"``; 2 in the paper.
        statistics: Pixels of the mean and the deviation: ``"all"`` or the ``"positive"``.
        share: Fraction of pixels for ``rule="top"``.
        fill: What covers pixels: ``"zero"``, ``"mean"`` or ``"blur"``, see `masked_input`.
        iterations: How often to cover and fine-tune.
        accumulate: Explain the covered images, and cover more of them, in each iteration; else
            each iteration explains and covers the original images.
        stop_below: Stop if the accuracy on covered images is below this while fine-tuning: no
            evidence is left. That iteration's weights are not kept. None never stops.
        tune_epochs: Epochs of each fine-tuning; 1 in the paper.
        tune_lr: Learning rate of fine-tuning, if not the last one.
        pair: Let a run use an `AbstainingPair` of the models before and after fine-tuning, as for
            selective classification, in place of the one after it.

    References:
        asgari2022masktune
    """

    def __init__(
        self,
        *,
        explainer: str = "xgrad_cam",
        explainer_settings: Mapping[str, Any] | None = None,
        layer: str | None = None,
        rule: Rule = "deviations",
        k: float = 2.0,
        statistics: Statistics = "all",
        share: float = 0.05,
        fill: Fill = "zero",
        iterations: int = 1,
        accumulate: bool = True,
        stop_below: float | None = None,
        tune_epochs: int = 1,
        tune_lr: float | None = None,
        pair: bool = False,
    ) -> None:
        self.explainer = explainer_factory(explainer, explainer_settings or {}, layer)
        self.rule = check_choice("rule", rule, RULES)
        if not isinstance(k, int | float) or isinstance(k, bool) or not 0 <= k < math.inf:
            raise InvalidSettingError(f"Expected `k` to be a number from 0, but got {k!r}.")
        self.k = float(k)
        self.statistics = check_choice("statistics", statistics, STATISTICS)
        self.share = check_fraction("share", share, below_one=True)
        self.fill = check_choice("fill", fill, FILLS)
        self.iterations = check_integer("iterations", iterations)
        self.accumulate = check_flag("accumulate", accumulate)
        self.stop_below = (
            None if stop_below is None else check_fraction("stop_below", stop_below, below_one=True)
        )
        self.tune_epochs = check_integer("tune_epochs", tune_epochs)
        self.tune_lr = None if tune_lr is None else positive_float("tune_lr", tune_lr)
        self.pair = check_flag("pair", pair)

    @override
    def deployed(self, model: nn.Module, folder: Path) -> nn.Module:
        if not self.pair:
            return model
        first = copy.deepcopy(model)
        load_weights_into(first, folder / "stage-1-train" / "model.safetensors")
        return AbstainingPair(first, model).eval()

    @override
    def run(self, model: nn.Module, objective: Objective, stages: Stages) -> None:
        train = stages.data.train
        refuse_other_than_images(train, "MaskTune")
        first = stages.fit("train", model, objective, train)
        bits: MaskBits | None = None
        for iteration in range(self.iterations):
            bits = self.masks(model, stages, bits if self.accumulate else None)
            if not iteration and first.last:
                model.load_state_dict(first.last)
            before = model.state_dict() if self.stop_below is None else _copy_weights(model)
            covered = masked_input(train, bits, fill=self.fill)
            settings: dict[str, Any] = {"epochs": self.tune_epochs, "lr": self.tune_lr}
            fitted = fine_tune(stages, model, objective, covered, first, **settings)
            accuracy = fitted.history[-1]["accuracy"]
            if self.stop_below is not None and accuracy < self.stop_below:
                logger.info(
                    "Stopped in iteration %d of MaskTune: training accuracy %.3f is below %g.",
                    iteration + 1,
                    accuracy,
                    self.stop_below,
                )
                model.load_state_dict(before)
                break

    def masks(self, model: nn.Module, stages: Stages, under: MaskBits | None = None) -> MaskBits:
        """Mask the pixels to cover in each training image, added to those covered before.

        Args:
            model: The model to explain, in test mode.
            stages: Gives the training data, and keeps the masks.
            under: Masks of the pixels covered before.
        """
        train, soft = stages.data.train, self.rule == "soft"
        seen = train if under is None else masked_input(train, under, fill=self.fill)

        def chunks() -> Iterator[NDArray[np.uint8]]:
            with seeded(stages.seed):  # for explainers that draw
                yield from self._draw_masks(model, seen, under, soft=soft)

        rows = stages.compute_once("masks", len(train), chunks)
        height, width = train.card.shape[1:]
        return MaskBits(rows, size=(height, width), soft=soft)

    def _draw_masks(
        self, model: nn.Module, seen: Dataset, under: MaskBits | None, *, soft: bool
    ) -> Iterator[NDArray[np.uint8]]:
        for indices, heat in draw_heat_maps(model, seen, self.explainer):
            mask = heat_mask(
                heat, rule=self.rule, k=self.k, statistics=self.statistics, share=self.share
            )
            if under is not None:
                mask = torch.maximum(mask, under.at(indices).to(mask))
            rows = pack_masks(mask, soft=soft)
            del heat, mask  # before the next batch is explained
            yield rows


def explainer_factory(name: str, settings: Mapping[str, Any], layer: str | None) -> MakeExplainer:
    """Check settings and give a function that makes the explainer, with its layer found once.

    Args:
        name: Name in `EXPLAINERS`.
        settings: Settings of the explainer.
        layer: Layer of a class activation map; None is the last layer with spatial maps.
    """
    reads_layer = "layers" in EXPLAINERS.settings(name)
    if layer is not None and not reads_layer:
        raise InvalidSettingError(
            f"Expected an explainer that reads a `layer`, such as xgrad_cam, but got {name!r} "
            f"beside the layer {layer!r}."
        )
    EXPLAINERS.create(name, **settings)  # wrong settings raise before anything is trained

    def make(model: nn.Module, x: Tensor) -> Explainer:
        if not reads_layer or "layers" in settings:
            return EXPLAINERS.create(name, **settings)
        chosen = last_spatial_layer(model, x) if layer is None else str(layer)
        return EXPLAINERS.create(name, layers=[chosen], **settings)

    return make


def draw_heat_maps(
    model: nn.Module, data: Dataset, make: MakeExplainer
) -> Iterator[tuple[Tensor, Tensor]]:
    """Draw a heat map of each sample for its predicted class, batch by batch, in test mode.

    A class activation map needs one forward pass, which gives the predicted class as well, and a
    backward pass to its layer only.

    Returns:
        Indices ``(n,)`` and maps ``(n, 1, H, W)``: absolute values, summed over channels.
    """
    explainer: Explainer | None = None
    size = len(data)
    for indices, batch in zip(
        _split_indices(size), data.batches(_split_indices(size)), strict=True
    ):
        x = move_to_model(batch, model).x
        if explainer is None:
            explainer = make(model, x)
        yield indices, postprocessed(explainer(model, x)).cpu()


def heat_mask(
    heat: Tensor,
    *,
    rule: Rule = "deviations",
    k: float = 2.0,
    statistics: Statistics = "all",
    share: float = 0.05,
) -> Tensor:
    r"""Mask the hottest pixels of each map.

    ============== =================================================================
    ``deviations`` pixels above :math:`\mu + k \sigma` of the sample's own map
    ``top``        the ``share`` of the pixels that are hottest, at least one
    ``soft``       every pixel by its heat over the largest
    ============== =================================================================

    A map that is nowhere above zero masks nothing, nor does a flat one for ``deviations``.

    Args:
        heat: ``(N, 1, H, W)``, at least 0.
        rule: One of the rules above.
        k: Number of deviations, at least 0.
        statistics: Take mean and (population) deviation of all pixels, or of those above 0 only.
        share: Fraction of pixels to mask.

    Returns:
        ``(N, 1, H, W)`` in [0, 1].

    Example:
        >>> heat = torch.tensor([[[[0.0, 0.0, 0.0], [0.0, 0.0, 9.0]]]])
        >>> heat_mask(heat)[0, 0]
        tensor([[0., 0., 0.],
                [0., 0., 1.]])
    """
    flat = heat.flatten(1)
    if rule == "soft":
        largest = flat.amax(dim=1, keepdim=True)
        mask = torch.where(largest > 0, flat / torch.where(largest > 0, largest, 1), 0)
    elif rule == "top":
        indices = flat.topk(max(math.floor(share * flat.shape[1]), 1), dim=1).indices
        mask = torch.zeros_like(flat).scatter(1, indices, 1.0)
        mask = torch.where(flat > 0, mask, 0)
    else:
        exact = flat.double()
        stands_out = exact > _threshold(exact, k, statistics)
        is_flat = exact.amax(dim=1, keepdim=True) == exact.amin(dim=1, keepdim=True)
        mask = (stands_out & ~is_flat).to(flat)
    return mask.reshape(heat.shape)


SCHEDULE = ("step_epochs", "milestones", "step_factor")
"""Settings of the first fit's schedule, which fine-tuning at a constant rate does not have."""


def fine_tune(
    stages: Stages,
    model: nn.Module,
    objective: Objective,
    data: Dataset,
    first: Fit,
    *,
    epochs: int,
    lr: float | None,
) -> Fit:
    """Fine-tune for some epochs at a constant rate: ``lr``, or the last rate of the first fit."""
    start = float(stages.settings.get("lr", DEFAULTS.lr))
    rate = lr or last_rate(first.history, start)
    changes = {"epochs": epochs, "lr": rate, "scheduler": "constant", "select": "none"}
    changes |= {name: getattr(DEFAULTS, name) for name in SCHEDULE}
    if stages.settings.get("body_lr") is not None:  # both rates keep their ratio
        changes["body_lr"] = stages.settings["body_lr"] * rate / start
    return stages.fit("tune", model, objective, data, **changes)


def last_rate(history: list[dict[str, Any]], lr: float) -> float:
    """The rate at the start of the last epoch; at its end a cosine schedule has reached 0.

    Args:
        history: Rows of the epochs, each with the rate at its end.
        lr: Rate at the start of training.

    Example:
        >>> last_rate([{"lr": 0.05}, {"lr": 0.0}], lr=0.1)
        0.05
    """
    return float(history[-2]["lr"]) if len(history) > 1 else lr


def refuse_other_than_images(data: Dataset, who: str) -> None:
    """Raise if the samples are not images ``(C, H, W)``."""
    if len(data.card.shape) != 3:
        raise InvalidSettingError(
            f"Expected images of shape (C, H, W) for {who}, which covers pixels, but "
            f"{data.card.name!r} has samples of shape {data.card.shape}. Text and tables are not "
            "supported."
        )


def _threshold(flat: Tensor, k: float, statistics: Statistics) -> Tensor:
    counted = flat > 0 if statistics == "positive" else torch.ones_like(flat, dtype=torch.bool)
    num = counted.sum(dim=1, keepdim=True).clamp(min=1)
    mean = torch.where(counted, flat, 0).sum(dim=1, keepdim=True) / num
    spread = torch.where(counted, flat - mean, 0).square().sum(dim=1, keepdim=True) / num
    return mean + k * spread.sqrt()


def _split_indices(size: int) -> Iterator[Tensor]:
    """Indices batch by batch: all at once would take a tenth of the memory of the masks."""
    for first in range(0, size, BATCH_SIZE):
        yield torch.arange(first, min(first + BATCH_SIZE, size))


def _copy_weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}
