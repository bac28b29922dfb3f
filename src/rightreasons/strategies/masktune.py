"""MaskTune: cover what the model looked at, and train on for an epoch."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rightreasons.checkpoint import load_weights_into
from rightreasons.datasets import Dataset, MaskBits, masked_input
from rightreasons.datasets.mask_bits import packed
from rightreasons.datasets.masked_input import FILLS, Fill
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives import Objective
from rightreasons.process import seeded
from rightreasons.selective import AbstainingPair
from rightreasons.setting import (
    checked_choice,
    checked_factor,
    checked_flag,
    checked_number,
    checked_share,
)
from rightreasons.strategies.heat_map import heat_maps, settled_explainer
from rightreasons.strategies.heat_mask import RULES, STATISTICS, Rule, Statistics, heat_mask
from rightreasons.strategies.stages import Stages
from rightreasons.strategies.strategy import Strategy
from rightreasons.strategies.tuning import tuned

__all__ = ["MaskTune"]

logger = logging.getLogger("rightreasons")


@final
class MaskTune(Strategy):
    r"""MaskTune: train, cover what the model looked at, train on for an epoch.

    Each training image is explained for the class the model *predicts*, and covered where its heat
    map :math:`A` exceeds :math:`\tau = \mu + k \sigma` of that map. Fine-tuning on the covered
    images makes the model find what else tells the label; no masks, no groups are needed.

    .. math:: \hat x = \mathbb 1[A_x \le \tau] \odot x

    Heat maps come from the selected weights, fine-tuning starts from the last ones, at the rate
    the last epoch began with. Masks are kept as bits (soft ones as bytes), in memory or mapped
    from a file in the run's folder. The model before fine-tuning stays in ``stage-1-train``.

    Differs from the paper: a map is resized to the input before it is cut, not after, as in its
    public code, whose mean and deviation are those of the positive values alone
    (``statistics="positive"``). The optimizer begins anew. Text has no strategy of its own yet:
    samples other than images are refused.

    Args:
        explainer: Name of what draws the heat maps; absolute values, summed over channels.
        explainer_settings: Of the explainer.
        layer: Where a class activation map is read; None is the last with maps of features.
        rule: How a map becomes a mask, see `heat_mask`; likewise ``k``, ``statistics`` and
            ``share``.
        k: 2 in the paper.
        statistics: ``"all"`` pixels or the ``"positive"``.
        share: For ``rule="top"``.
        fill: What covers: ``"zero"``, ``"mean"`` or ``"blur"``, see `covered`.
        iterations: How often to cover and fine-tune.
        accumulate: Cover on top of what is covered already, explaining the covered images; else
            each iteration explains and covers the images as they were.
        stop_below: Stop when the accuracy on covered images while fine-tuning is below this
            share: nothing useful is left. That iteration's weights are not kept. None never.
        tune_epochs: Of each fine-tuning; 1 in the paper.
        tune_lr: Its rate, if not the last one.
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
        self.explainer = settled_explainer(explainer, explainer_settings or {}, layer)
        self.rule = checked_choice("rule", rule, RULES)
        if not isinstance(k, int | float) or isinstance(k, bool) or not 0 <= k < math.inf:
            raise InvalidSettingError(f"Expected `k` to be a number from 0, but got {k!r}.")
        self.k = float(k)
        self.statistics = checked_choice("statistics", statistics, STATISTICS)
        self.share = checked_share("share", share)
        self.fill = checked_choice("fill", fill, FILLS)
        self.iterations = checked_number("iterations", iterations)
        self.accumulate = checked_flag("accumulate", accumulate)
        self.stop_below = None if stop_below is None else checked_share("stop_below", stop_below)
        self.tune_epochs = checked_number("tune_epochs", tune_epochs)
        self.tune_lr = None if tune_lr is None else checked_factor("tune_lr", tune_lr)
        self.pair = checked_flag("pair", pair)

    def deployed(self, model: nn.Module, folder: Path) -> nn.Module:
        """See `Strategy.deployed`."""
        if not self.pair:
            return model
        first = copy.deepcopy(model)
        load_weights_into(first, folder / "stage-1-train" / "model.safetensors")
        return AbstainingPair(first, model).eval()

    def run(self, model: nn.Module, objective: Objective, stages: Stages) -> None:
        """See `Strategy.run`."""
        train = stages.data.train
        refuse_other_than_images(train, "MaskTune")
        first = stages.fit("train", model, objective, train)
        bits: MaskBits | None = None
        for iteration in range(self.iterations):
            bits = self.masks(model, stages, bits if self.accumulate else None)
            if not iteration and first.last:
                model.load_state_dict(first.last)
            before = model.state_dict() if self.stop_below is None else _copied(model)
            covered = masked_input(train, bits, fill=self.fill)
            settings: dict[str, Any] = {"epochs": self.tune_epochs, "lr": self.tune_lr}
            fitted = tuned(stages, model, objective, covered, first, **settings)
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
        """What to cover in each training image, on top of what is covered already.

        Args:
            model: Explained as at test time.
            stages: Whose training data are masked; it keeps the masks.
            under: What is covered already.
        """
        train, soft = stages.data.train, self.rule == "soft"
        seen = train if under is None else masked_input(train, under, fill=self.fill)

        def chunks() -> Iterator[NDArray[np.uint8]]:
            with seeded(stages.seed):  # for explainers that draw
                yield from self._packed(model, seen, under, soft=soft)

        rows = stages.kept("masks", len(train), chunks)
        height, width = train.card.shape[1:]
        return MaskBits(rows, size=(height, width), soft=soft)

    def _packed(
        self, model: nn.Module, seen: Dataset, under: MaskBits | None, *, soft: bool
    ) -> Iterator[NDArray[np.uint8]]:
        for places, heat in heat_maps(model, seen, self.explainer):
            mask = heat_mask(
                heat, rule=self.rule, k=self.k, statistics=self.statistics, share=self.share
            )
            if under is not None:
                mask = torch.maximum(mask, under.at(places).to(mask))
            rows = packed(mask, soft=soft)
            del heat, mask  # before the next batch is explained
            yield rows


def _copied(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def refuse_other_than_images(data: Dataset, who: str) -> None:
    """Raise if the samples are not images ``(C, H, W)``."""
    if len(data.card.shape) != 3:
        raise InvalidSettingError(
            f"Expected images of shape (C, H, W) for {who}, which covers pixels, but "
            f"{data.card.name!r} has samples of shape {data.card.shape}. Text and tables are not "
            "supported."
        )
