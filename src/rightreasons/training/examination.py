"""What a fit looks at beside the loss: its masks, and its model when masked parts are swapped."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from typing_extensions import override

from rightreasons.datasets.dataset import Dataset, spread_over_classes
from rightreasons.datasets.telling_masks import coarse_places, mask_tells_class
from rightreasons.datasets.wrappers import select
from rightreasons.errors import RightReasonsError
from rightreasons.metrics import GroupAccuracy, Metric, SwapAccuracy
from rightreasons.metrics.metric import Rows
from rightreasons.probe.probe import Probe
from rightreasons.training.evaluate import evaluate

__all__ = ["Examination", "MaskFacts", "examine", "look_at_masks"]

logger = logging.getLogger("rightreasons")

MOST_SAMPLES = 500
NUM_DRAWS = 2
LARGE_COST = 0.05
MOST_UNSURE = 0.6


@dataclass(frozen=True)
class MaskFacts:
    """What some training masks look like.

    Args:
        tell_class: Whether the presence or the place of a mask tells the class.
        looks_inverted: Why the polarity looks inverted; empty if it does not.
        on_object: Whether the masks lie on the middle of the images and leave their edges.
    """

    tell_class: bool = False
    looks_inverted: str = ""
    on_object: bool = False


@dataclass(frozen=True)
class Examination:
    """What a trained model does on some samples, before and after the swap of masked parts.

    Args:
        part: Part of the data, ``"validation"`` or ``"training"``.
        num_samples: Number of samples.
        values: Values of `SwapAccuracy`, `GroupAccuracy` and the answers, by name.
    """

    part: str
    num_samples: int
    values: Mapping[str, float]

    @property
    def cost(self) -> float:
        """Accuracy lost by the samples that the swap changed."""
        return self.values.get("swap_accuracy/cost", 0.0)

    @property
    def reads_mask(self) -> bool:
        """Whether the swap costs clearly, and at least five points."""
        return self.cost >= LARGE_COST and self.values.get("swap_accuracy/cost/low", 0.0) > 0

    @property
    def is_unsure(self) -> bool:
        """Whether the confidence is far below the accuracy, both measured from chance.

        A calibrated model is as sure as it is right. The share of the two is 1 for it, and 0 for a
        model whose logits were shrunk to nothing, however many answers are right.
        """
        right, sure = self.values["answers/accuracy"], self.values["answers/confidence"]
        chance = 1 / self.values["answers/outputs"]
        return right - sure >= LARGE_COST and sure - chance < MOST_UNSURE * (right - chance)


def look_at_masks(data: Dataset) -> MaskFacts:
    """Look at the masks of at most 500 training samples; nothing is drawn."""
    if not data.has_masks:
        return MaskFacts()
    batch = data.take(spread_over_classes(data.labels, MOST_SAMPLES))
    if batch.mask is None or batch.annotated is None or not bool(batch.annotated.any()):
        return MaskFacts()
    mask, labels = batch.mask[batch.annotated].cpu(), batch.y[batch.annotated].cpu()
    carries = (mask > 0).flatten(1).any(dim=1)
    if not bool(carries.any()):
        return MaskFacts()
    tell_class = mask_tells_class(labels, carries, coarse_places(mask))
    is_masked = mask[carries] > 0.5
    whole = float(is_masked.flatten(1).all(dim=1).double().mean())
    share = float(is_masked.double().mean())
    if whole >= 0.05:
        why = f"{whole:.0%} of the masks cover the whole input, so nothing is left to look at."
        return MaskFacts(tell_class, why)
    if mask.ndim != 4 or min(mask.shape[2:]) < 4:
        return MaskFacts(tell_class)
    middle, edge = _middle_and_edge(is_masked.any(dim=1).double())
    free_middle = float(1 - middle.mean()) / 4 / max(1 - share, 1e-12)  # a quarter of the pixels
    if share > 0.5 and free_middle < 0.1:
        why = f"The masks cover {share:.0%} of the images and leave parts near the edge only."
        return MaskFacts(tell_class, why)
    on_object = float(middle.mean()) > 0.6 and float(edge.mean()) < 0.15
    return MaskFacts(tell_class, "", on_object)


def examine(
    model: nn.Module, training: Dataset, validation: Dataset | None, *, batch_size: int
) -> Examination | None:
    """Measure a trained model before and after the swap; None without masks to swap.

    At most 500 validation samples are measured, or training samples if no validation sample has a
    mask. Passes have no more rows than a batch of the training, and no gradients.

    Args:
        model: Gives logits ``(N, K)``.
        training: Training data.
        validation: Validation data.
        batch_size: Most rows in a pass.
    """
    for part, data in (("validation", validation), ("training", training)):
        if data is None or not data.has_masks:
            continue
        some = select(data, spread_over_classes(data.labels, MOST_SAMPLES).sort().values)
        if not some.take(torch.tensor([0])).x.is_floating_point():
            return None
        swap = SwapAccuracy(num_draws=NUM_DRAWS)
        metrics: list[Metric] = [swap, _Answers()]
        metrics += [GroupAccuracy(num_draws=200)] if _has_groups(some) else []
        try:
            values = evaluate(model, some, metrics, batch_size=batch_size, max_rows=batch_size)
        except RightReasonsError as error:  # the fit is over: a check may not take it away
            logger.info("The masked parts of %s samples were not swapped: %s", part, error)
            continue
        if swap.num_masked:
            return Examination(part, len(some), values)
    return None


class _Answers(Metric):
    """Accuracy and mean confidence, and the accuracy in each class."""

    name = "answers"
    higher_is_better = True

    def __init__(self) -> None:
        super().__init__()
        self._classes: tuple[str, ...] = ()

    @override
    def prepare(self, data: Dataset) -> None:
        self._classes = data.card.classes

    @override
    def measure(self, probe: Probe) -> Rows:
        confidence, predicted = probe.logits.double().softmax(dim=1).max(dim=1)
        right = predicted == probe.batch.y
        outputs = torch.full_like(probe.batch.y, probe.logits.shape[1])
        return {"confidence": confidence, "right": right, "y": probe.batch.y, "outputs": outputs}

    @override
    def summary(self, rows: Rows) -> dict[str, float]:
        right, y = rows["right"].double(), rows["y"]
        values = {
            "accuracy": float(right.mean()),
            "confidence": float(rows["confidence"].mean()),
            "outputs": float(rows["outputs"].max()),
        }
        for label in torch.unique(y).tolist():
            name = self._classes[label] if label < len(self._classes) else str(label)
            values[f"class/{name}"] = float(right[y == label].mean())
            values[f"count/{name}"] = float((y == label).sum())
        return values


def _has_groups(data: Dataset) -> bool:
    groups = data.groups
    return groups is not None and bool((groups >= 0).any())


def _middle_and_edge(covered: Tensor) -> tuple[Tensor, Tensor]:
    """For masks ``(N, H, W)``, the covered share of the middle quarter and of the outer frame."""
    height, width = covered.shape[1:]
    top, left = height // 4, width // 4
    middle = covered[:, top : height - top, left : width - left].mean(dim=(1, 2))
    frame = torch.ones(height, width, dtype=torch.bool)
    frame[1:-1, 1:-1] = False
    return middle, covered[:, frame].mean(dim=1)
