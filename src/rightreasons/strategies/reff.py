"""ReFF's procedure: learn masks from a few, predict the others, train with all of them."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, Literal, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from rightreasons.annotators import (
    PseudoAnnotator,
    draw_annotated,
    find_annotated,
    keep_annotations,
    mask_quality,
)
from rightreasons.annotators.predicted_masks import fill_masks, predict_rows
from rightreasons.core.checks import check_flag, check_integer
from rightreasons.core.files import write_json
from rightreasons.datasets import MaskBits
from rightreasons.objectives import ABN, Objective, ReFFL1, ReFFL2
from rightreasons.strategies.strategy import Stages, Strategy

__all__ = ["ReFF"]

LOOK_INSIDE = (ABN, ReFFL1, ReFFL2)

logger = logging.getLogger("rightreasons")


@final
class ReFF(Strategy):
    """ReFF: learn masks from a few, predict the others, then train with all of them.

    Algorithm 1 of the paper, for any recipe that reads masks. The run's folder gets
    ``annotator/`` with the pseudo-annotator and ``quality.json``: how many masks it learned from
    and, if the data have further annotations, the quality of its masks there. Validation and test
    data stay unchanged.

    Differs from the paper: masks are predicted once, not in every batch, and kept in steps of
    1/255; see `PseudoAnnotator` for the annotator's own settings.

    Args:
        num_annotations: Masks to keep for each class, drawn by the seed; 1 to 50 in the paper.
            None keeps all masks. If every sample has a mask, none are predicted.
        weight_by_confidence: Whether a mask counts by the annotator's confidence in it. Terms that
            cannot use it log this.
        annotator: Its objective, see `PseudoAnnotator`; likewise the other settings.
        annotator_width: Its ``width``.
        annotator_depth: Its ``depth``.
        annotator_updates: Its ``num_updates``.
        annotator_batch_size: Its ``batch_size``.
        annotator_lr: Its ``lr``.
        annotator_l1_weight: Its ``l1_weight``.
        annotator_flip: Its ``flip``.
        annotator_shift: Its ``shift``.
        annotator_degrees: Its ``degrees``.
        annotator_paste: Its ``paste``.

    References:
        adachi2022learning
    """

    def __init__(
        self,
        *,
        num_annotations: int | None = None,
        weight_by_confidence: bool = False,
        annotator: Literal["segmentation", "pix2pix"] = "segmentation",
        annotator_width: int = 8,
        annotator_depth: int = 3,
        annotator_updates: int = 600,
        annotator_batch_size: int | None = None,
        annotator_lr: float | None = None,
        annotator_l1_weight: float = 100.0,
        annotator_flip: bool = False,
        annotator_shift: int = 2,
        annotator_degrees: float = 10.0,
        annotator_paste: float = 0.0,
    ) -> None:
        self.num_annotations = (
            None if num_annotations is None else check_integer("num_annotations", num_annotations)
        )
        self.weight_by_confidence = check_flag("weight_by_confidence", weight_by_confidence)
        self.annotator_settings: dict[str, Any] = {
            "objective": annotator,
            "width": annotator_width,
            "depth": annotator_depth,
            "num_updates": annotator_updates,
            "batch_size": annotator_batch_size,
            "lr": annotator_lr,
            "l1_weight": annotator_l1_weight,
            "flip": annotator_flip,
            "shift": annotator_shift,
            "degrees": annotator_degrees,
            "paste": annotator_paste,
        }
        PseudoAnnotator(**self.annotator_settings)  # wrong settings raise before data are read

    @override
    def run(self, model: nn.Module, objective: Objective, stages: Stages) -> None:
        train, seed = stages.data.train, stages.seed
        annotated = find_annotated(train)
        indices = annotated.nonzero().flatten()
        if self.num_annotations is not None:
            indices = draw_annotated(train.labels, annotated, self.num_annotations, seed=seed)
        if len(indices) == len(train):
            logger.info(
                "All %d training samples are annotated: no masks are predicted.", len(train)
            )
            stages.fit("train", model, objective, train)
            return
        self._warn_about_weights(objective)
        partly_masked = keep_annotations(train, indices)
        annotator = PseudoAnnotator(**self.annotator_settings, seed=seed)
        annotator.fit(partly_masked, train=partial(stages.fit, "annotator"))
        rows = stages.compute_once(
            "masks", len(train), lambda: predict_rows(partly_masked, annotator)
        )
        height, width = train.card.shape[1:]
        bits = MaskBits(rows, size=(height, width), soft=True)
        annotated[indices] = False
        self._save(stages, annotator, bits, num_learned=len(indices), held_out=annotated)
        masked = fill_masks(
            partly_masked,
            bits,
            key=annotator.digest(),
            weight_by_confidence=self.weight_by_confidence,
        )
        stages.fit("train", model, objective, masked)

    def _warn_about_weights(self, objective: Objective) -> None:
        misled = [n for n, term in objective.terms.items() if isinstance(term, LOOK_INSIDE)]
        if misled and self.weight_by_confidence:
            logger.warning(
                "`weight_by_confidence` makes unsure masks smaller, which to %s means that the "
                "model should look there. Leave it out, or use a recipe that only says where not "
                "to look, such as reff or r3.",
                " and ".join(misled),
            )

    def _save(
        self,
        stages: Stages,
        annotator: PseudoAnnotator,
        bits: MaskBits,
        *,
        num_learned: int,
        held_out: Tensor,
    ) -> None:
        if stages.folder is None or not stages.fabric.is_global_zero:
            return
        folder, train = stages.folder / "annotator", stages.data.train
        annotator.save(folder)
        quality = None
        if bool(held_out.any()):
            indices = held_out.nonzero().flatten()
            quality = mask_quality(
                train, lambda batch: bits.at(torch.as_tensor(batch.index)), places=indices
            )
        counts = {"num_annotations": num_learned, "num_predicted": len(train) - num_learned}
        write_json(folder / "quality.json", {**counts, "held_out": quality})
