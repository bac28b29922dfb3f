"""One batch judged: proofs, attacks and the checks between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from rightreasons.certification.cross_check import (
    refuse_contradiction,
    refuse_non_finite,
    refuse_outside,
    refuse_smaller_than_found,
    refuse_wrong_outputs,
    refuse_wrong_points,
)
from rightreasons.certification.hidden_units import num_hidden_units
from rightreasons.certification.proof import gradient_size_bound, proved_gradient, proved_margin
from rightreasons.certification.region import Region, region_of
from rightreasons.certification.search import found_gradient, found_margin
from rightreasons.certification.verdict import Status, Verdict
from rightreasons.errors import InvalidBatchError
from rightreasons.target import Target
from rightreasons.types import Batch

__all__ = ["Judgement", "Settings", "judged"]

MOST_UNITS = 8192
"""The largest net on which linear relaxation is tried without being asked for."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What `certify` was asked for; its arguments say what they mean."""

    epsilon: float | None
    valid_range: tuple[float, float]
    method: Literal["ibp", "crown", "auto"]
    batch_size: int
    num_steps: int
    num_restarts: int
    seed: int

    @property
    def search(self) -> dict[str, int]:
        """How an attack searches."""
        return {"num_steps": self.num_steps, "num_restarts": self.num_restarts}


@dataclass(frozen=True)
class Judgement:
    """Verdicts on the samples of a batch, and the points that refute some of them.

    Args:
        verdicts: One for each sample.
        counterexamples: One for each refuted sample.
    """

    verdicts: list[Verdict]
    counterexamples: list[dict[str, Any]]


def judged(model: nn.Module, exact: nn.Module, batch: Batch, settings: Settings) -> Judgement:
    """Judge the samples of a batch.

    Args:
        model: As it is deployed, in test mode.
        exact: The same in double precision.
        batch: With masks and an index, in the model's precision.
        settings: What was asked for.
    """
    if batch.mask is None or batch.index is None:
        raise InvalidBatchError("Expected every batch to have masks and an index, but one has not.")
    with torch.no_grad():
        logits = model(batch.x)
    refuse_non_finite(logits)
    prediction = logits.argmax(dim=1)
    columns: dict[str, list[Any]] = {
        "index": batch.index.tolist(),
        "y": batch.y.tolist(),
        "prediction": prediction.tolist(),
    }
    if batch.group is not None:
        columns["group"] = batch.group.tolist()
    entries: list[dict[str, Any]] = [
        dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
    ]
    rows = batch.mask.flatten(1).any(dim=1).nonzero().flatten()
    counterexamples: list[dict[str, Any]] = []
    if len(rows):
        region = region_of(
            model,
            exact,
            batch[rows],
            prediction[rows],
            epsilon=settings.epsilon,
            valid_range=settings.valid_range,
        )
        found, counterexamples = _about_predictions(region, settings)
        found |= _about_gradients(region, settings)
        for place, row in enumerate(rows.tolist()):
            entries[row] |= {name: values[place] for name, values in found.items()}
    return Judgement([Verdict(**entry) for entry in entries], counterexamples)


def _about_predictions(
    region: Region, settings: Settings
) -> tuple[dict[str, list[Any]], list[dict[str, Any]]]:
    """Prove, attack, and prove again more tightly where neither decided."""
    refuse_wrong_outputs(region)
    everyone = torch.arange(len(region.batch), device=region.prediction.device)
    proved = proved_margin(region, everyone, method="ibp")
    points, changed_to, found = found_margin(region, **settings.search)
    refuted = changed_to != region.prediction
    refuse_contradiction(proved > 0, refuted)
    undecided = (~(proved > 0) & ~refuted).nonzero().flatten()
    if len(undecided) and _tightens(region, settings):
        tighter = proved_margin(region, undecided, method="crown")
        proved = proved.index_put((undecided,), torch.maximum(proved[undecided], tighter))
    refuse_smaller_than_found("loss of margin", -proved, -found.double())
    status: list[Status] = [
        "verified" if sure else "refuted" if wrong else "unknown"
        for sure, wrong in zip((proved > 0).tolist(), refuted.tolist(), strict=True)
    ]
    columns: dict[str, list[Any]] = {
        "status": status,
        "changed_to": [
            new if wrong else None
            for new, wrong in zip(changed_to.tolist(), refuted.tolist(), strict=True)
        ],
        "margin_proved": proved.tolist(),
        "margin_found": found.tolist(),
    }
    shown = refuted.nonzero().flatten().tolist()
    return columns, [_counterexample(region, row, points, changed_to) for row in shown]


def _tightens(region: Region, settings: Settings) -> bool:
    if settings.method != "auto":
        return settings.method == "crown"
    return num_hidden_units(region.model, region.batch.x) <= MOST_UNITS


def _about_gradients(region: Region, settings: Settings) -> dict[str, list[Any]]:
    """Bound the masked gradients, and search for large ones."""
    columns: dict[str, list[Any]] = {}
    for target in (Target.LOSS, Target.LOGIT):
        refuse_wrong_points(region, target)
        method: Literal["ibp", "crown"] = "crown" if settings.method == "crown" else "ibp"
        bounds = proved_gradient(region, target, method=method)
        nominal = region.exact_probe.inside.gradient(target).detach()
        refuse_outside(f"the gradient of the {target.value}", nominal, bounds)
        proved = gradient_size_bound(region, bounds)
        found = found_gradient(region, target, **settings.search)
        refuse_smaller_than_found(f"gradient of the {target.value}", proved, found)
        columns[f"{target.value}_gradient_proved"] = proved.tolist()
        columns[f"{target.value}_gradient_found"] = found.tolist()
    return columns


def _counterexample(region: Region, row: int, points: Tensor, changed_to: Tensor) -> dict[str, Any]:
    index = region.batch.index
    own = (region.mask[row] != 0).nonzero().flatten()
    return {
        "index": None if index is None else int(index[row]),
        "prediction": int(region.prediction[row]),
        "changed_to": int(changed_to[row]),
        "features": region.columns[own].tolist(),
        "values": points[row, own].tolist(),
    }
