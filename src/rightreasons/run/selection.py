"""How a repair is chosen: by numbers on validation data that a shortcut cannot raise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from rightreasons.certification.certify import certify
from rightreasons.datasets import Dataset, MaskBits, masked_input
from rightreasons.datasets.wrappers import pack_masks
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.run.methods import FEWEST, Facts
from rightreasons.run.shortcuts import measure_exchange
from rightreasons.strategies.masktune import draw_heat_maps, explainer_factory, heat_mask
from rightreasons.training.evaluate import evaluate

__all__ = ["By", "Judge", "choose"]

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
