"""How a repair is chosen: by numbers on validation data that a shortcut cannot raise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from rightreasons.annotators.hand_masks import CHUNK
from rightreasons.certification.certify import certify
from rightreasons.core.model_modes import test_time_mode
from rightreasons.datasets import Dataset, MaskBits, masked_input
from rightreasons.datasets.wrappers import pack_masks
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.metrics import SwapAccuracy
from rightreasons.metrics.metric import bootstrap_means, percentile_interval
from rightreasons.probe.embeddings import call_model
from rightreasons.probe.probe import move_to_model
from rightreasons.run.methods import FEWEST, Facts
from rightreasons.run.shortcuts import ColourExchanged
from rightreasons.strategies.masktune import draw_heat_maps, explainer_factory, heat_mask
from rightreasons.training.evaluate import evaluate

__all__ = ["By", "Judge", "Loss", "choose", "describe_masks", "measure_exchange"]

By = Literal["worst_group", "worst_swap", "covered_accuracy", "certified", "accuracy"]

WHAT: dict[By, str] = {
    "worst_group": "accuracy in the worst validation group",
    "worst_swap": "accuracy on validation samples with shortcuts of another class",
    "covered_accuracy": "accuracy on validation images without the pixels that the original used",
    "certified": "share of validation samples that are right and proved to stay so",
    "accuracy": "validation accuracy",
}
WHY: dict[By, str] = {
    "worst_group": "every group has validation samples",
    "worst_swap": "there are shortcuts to exchange, and no validation groups that break them",
    "covered_accuracy": "there are neither masks nor groups",
    "certified": "a certificate was asked for",
    "accuracy": "there are neither masks nor groups; a shortcut can raise this number",
}


class Loss(NamedTuple):
    """What exchanging a shortcut costs.

    Args:
        before: Accuracy before, over the samples that the exchange changes.
        accuracy: Accuracy over all annotated samples with the shortcut exchanged.
        cost: What the changed samples lose, in accuracy.
        low: Lower end of the 95 % interval of the cost.
        high: Upper end.
    """

    before: float
    accuracy: float
    cost: float
    low: float
    high: float


def measure_exchange(
    model: nn.Module, data: Dataset, *, masks: bool, colour: bool, across: bool = False
) -> Loss:
    """Measure a model before and after shortcuts are exchanged between samples, all at once.

    Args:
        model: Gives logits ``(N, K)``.
        data: Data with the masks of the shortcuts that have some.
        masks: Whether to exchange what the masks cover, see `SwapAccuracy`.
        colour: Whether to exchange the colours of whole images.
        across: Whether all comes from samples of other classes.
    """
    changed = ColourExchanged(data, always=True, across=across) if colour else data
    if masks:
        values = evaluate(model, changed, [SwapAccuracy(across=across)])
        name = "swap_accuracy"
        if not colour:
            ends = [values.get(f"{name}/cost{end}", 0.0) for end in ("", "/low", "/high")]
            before = values.get(f"{name}/before", values[name])
            return Loss(before, values[name], ends[0], ends[1], ends[2])
        before = evaluate(model, data, ["accuracy"])["accuracy"]
        after, spread = values[name], values[name] - values[f"{name}/low"]
        return Loss(before, after, before - after, before - after - spread, before - after + spread)
    rights = [_find_right(model, part) for part in (data, changed)]
    lost = (rights[0] - rights[1]).numpy()
    low, high = percentile_interval(bootstrap_means(lost))
    before, after = (float(right.mean()) for right in rights)
    return Loss(before, after, before - after, low, high)


def _find_right(model: nn.Module, data: Dataset) -> Tensor:
    right = []
    with torch.no_grad(), test_time_mode(model):
        for batch in data.batches(torch.split(torch.arange(len(data)), CHUNK)):
            moved = move_to_model(batch, model)
            right.append(
                (call_model(model, moved.x, moved.inputs).argmax(dim=1) == moved.y).double().cpu()
            )
    return torch.cat(right)


def describe_masks(data: Dataset) -> dict[str, float] | None:
    """The share of samples with a mask, and the mean share of such a sample that it covers."""
    if not data.has_masks:
        return None
    num, area = 0, 0.0
    for batch in data.batches(torch.split(torch.arange(len(data)), CHUNK)):
        masks = torch.zeros(len(batch), 1) if batch.mask is None else batch.mask.flatten(1)
        solid = (masks >= 0.5).double().mean(dim=1)
        num, area = num + int((solid > 0).sum()), area + float(solid.sum())
    return {"samples": num / len(data), "area": area / max(num, 1)}


@dataclass(frozen=True)
class Judge:
    """Measures models on validation data alone.

    Args:
        data: Validation data, with the masks of the shortcuts to remove.
        by: The number that decides.
        facts: What the user has.
        covered: Validation data without what the original used, for ``by="covered_accuracy"``.
        epsilon: Box of the certificate, for ``by="certified"``; None is the full range.
    """

    data: Dataset
    by: By
    facts: Facts
    covered: Dataset | None = None
    epsilon: float | None = None

    @classmethod
    def for_data(
        cls, model: nn.Module, data: Dataset, facts: Facts, *, epsilon: float | None
    ) -> Judge:
        """Choose what decides.

        Args:
            model: The model to repair.
            data: Validation data.
            facts: What the user has.
            epsilon: Box of the certificate, if one is asked for.
        """
        if facts.masks != "none" and not facts.validation_masks and not facts.validation_groups:
            raise InvalidSettingError(
                f"Expected masks or at least {FEWEST} samples of every group in the validation "
                f"data of {data.card.name!r}, to choose a repair by, but they have neither. Mask "
                "some of them too."
            )
        covered = None
        if facts.certificate:
            by: By = "certified"
        elif facts.validation_groups:
            by = "worst_group"
        elif facts.masks != "none" or facts.colour:
            by = "worst_swap"
        elif facts.is_image:
            by, covered = "covered_accuracy", _cover_used(model, data)
        else:
            by = "accuracy"
        return cls(data, by, facts, covered, epsilon)

    @property
    def what(self) -> str:
        """What decides, in words."""
        return WHAT[self.by]

    @property
    def why(self) -> str:
        """Why this decides, in words."""
        return WHY[self.by]

    def measure(self, model: nn.Module) -> dict[str, float]:
        """Measure all that decides or is told: ``accuracy``, ``score``, ``honest`` and more.

        ``worst_swap`` is the accuracy with shortcuts of another class, or the accuracy with the
        sample's own if that is lower. A mean over both would hide a shortcut: what it gains where
        it tells the truth makes up for what it loses where it lies.

        ``honest`` is the accuracy that the shortcut does not explain: the average over groups, the
        accuracy after the exchange, or the plain accuracy where neither is known.
        """
        names = ["accuracy", *(["group_accuracy"] if self.facts.validation_groups else [])]
        found = evaluate(model, self.data, names)
        values = {"accuracy": found["accuracy"], "honest": found["accuracy"]}
        masks = self.facts.validation_masks and self.facts.masks != "none"
        if masks or self.facts.colour:
            lost = measure_exchange(model, self.data, masks=masks, colour=self.facts.colour)
            values |= {"swap_accuracy": lost.accuracy, "swap_cost": lost.cost}
            values["honest"] = min(lost.accuracy, found["accuracy"])
            told = {"masks": masks, "colour": self.facts.colour, "across": True}
            others = measure_exchange(model, self.data, **told).accuracy
            values["worst_swap"] = min(others, found["accuracy"])
        if self.facts.validation_groups:
            values["worst_group"] = found["group_accuracy/worst"]
            values["honest"] = found["group_accuracy/average"]
        if self.covered is not None:
            values["covered_accuracy"] = evaluate(model, self.covered, ["accuracy"])["accuracy"]
        if self.by == "certified":
            proof = certify(model, self.data, epsilon=self.epsilon, method="ibp")
            values["certified"] = float(proof.summary["shares"]["verified_and_right"] or 0.0)
        values["score"] = values[self.by]
        return values

    def keeps(self, values: Mapping[str, float], original: Mapping[str, float], by: float) -> bool:
        """Whether a model keeps the accuracy of the original that a shortcut does not explain.

        Where groups are known, the average over groups may fall by the tolerance. Else the
        accuracy may fall by the tolerance and by what the original owes to the shortcut.

        Args:
            values: Values of the model.
            original: Values of the original.
            by: Tolerance, as a fraction.
        """
        now = values["honest"] if self.facts.validation_groups else values["accuracy"]
        return now >= original["honest"] - by - 1e-9

    @property
    def kept(self) -> str:
        """What must be kept, in words."""
        if self.facts.validation_groups:
            return "the average over validation groups"
        if self.facts.masks != "none" or self.facts.colour:
            return "the validation accuracy that the original has without the shortcut"
        return "the validation accuracy"


def choose(
    rows: Sequence[Mapping[str, Any]], original: Mapping[str, float]
) -> tuple[int | None, str]:
    """Choose the best trial that keeps accuracy and is better than the original.

    Args:
        rows: Rows of trials with ``state``, ``keeps`` and ``values``.
        original: Values of the original.

    Returns:
        Index of the chosen row, or None, and the reason in a word: ``"fixed"``, ``"not kept"``,
        ``"not better"`` or ``"no trial"``.
    """
    done = [place for place, row in enumerate(rows) if row["state"] == "finished"]
    if not done:
        return None, "no trial"
    better = [p for p in done if rows[p]["values"]["score"] > original["score"]]
    if not better:
        return None, "not better"
    kept = [place for place in better if rows[place]["keeps"]]
    if not kept:
        return None, "not kept"
    return max(kept, key=lambda place: (rows[place]["values"]["score"], -place)), "fixed"


def _cover_used(model: nn.Module, data: Dataset) -> Dataset:
    """Validation images without the pixels that a model used most, as MaskTune covers them."""
    height, width = data.card.shape[1:]
    try:
        rows = _find_used(model, data, "xgrad_cam")
    except (InvalidSettingError, InvalidBatchError):  # a model without spatial maps
        rows = _find_used(model, data, "input_gradient")
    return masked_input(data, MaskBits(rows, size=(height, width)))


def _find_used(model: nn.Module, data: Dataset, explainer: str) -> Any:
    make = explainer_factory(explainer, {}, None)
    packed = [pack_masks(heat_mask(heat)) for _, heat in draw_heat_maps(model, data, make)]
    return torch.cat([torch.from_numpy(one) for one in packed]).numpy()
