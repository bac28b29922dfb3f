"""Certify a model: prove, or refute, that masked features cannot change its predictions."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from rightreasons.certification.certificate import Certificate, Status, Verdict, model_digest
from rightreasons.certification.cross_check import (
    refuse_contradiction,
    refuse_exceeded_bound,
    refuse_non_finite,
    refuse_outside,
    refuse_wrong_outputs,
    refuse_wrong_points,
)
from rightreasons.certification.evidence import (
    bound_gradient,
    masked_gradient_bound,
    num_hidden_units,
    prove_margin,
    search_gradient,
    search_margin,
)
from rightreasons.certification.region import Region, region_of
from rightreasons.core.checks import (
    check_choice,
    check_integer,
    check_range,
    check_within,
    positive_float,
)
from rightreasons.core.files import library_versions
from rightreasons.core.model_modes import innermost, refuse_altered_modules, test_time_mode
from rightreasons.core.progress import track
from rightreasons.core.rng import drawn_from
from rightreasons.datasets import Card, Dataset, as_dataset
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.probe.probe import move_to_model
from rightreasons.types import Batch, Target

__all__ = ["BatchCertificate", "CertificationSettings", "certify", "certify_batch"]

METHODS: tuple[Literal["ibp", "crown", "auto"], ...] = ("ibp", "crown", "auto")
MOST_UNITS = 8192
"""The largest net on which linear relaxation is tried without being asked for."""
NUM_COUNTEREXAMPLES = 10


def certify(
    model: nn.Module,
    data: Dataset | Batch,
    *,
    epsilon: float | None,
    valid_range: tuple[float, float] | None = None,
    method: Literal["ibp", "crown", "auto"] = "auto",
    batch_size: int = 250,
    num_steps: int = 10,
    num_restarts: int = 2,
    seed: int = 0,
    progress: bool = False,
) -> Certificate:
    r"""Prove for each sample what the masked features can and cannot do within a box.

    Two questions are answered:

    - Can the *prediction* change? Bounds verify that it cannot, or an attack refutes it by changing
      it, or it is unknown.
    - How large can the masked gradient of the loss and of the label's logit get? The bound is
      :math:`\lVert m \max(|l|, |u|) \rVert_2`; beside it stands the largest that an attack found.

    Predictions are proved for the weights in double precision and again in the model's own, each
    rounded outward, so that proofs hold despite rounding. Gradients are bounded in double precision
    only: in single precision one may be longer by its rounding error. Every batch is
    cross-checked: bounds of a single point are autograd's gradient, bounds of the box contain the
    sample's logits and gradient, and no attack exceeds them. The model, its mode and its ``.grad``
    do not change. Only the verdicts take memory that grows with the data.

    Args:
        model: A model of layers that have bounds; it stays on its device.
        data: Data with masks.
        epsilon: How far masked features may move, in input units; times the mask where it is soft.
            None is the full range: they may take every valid value.
        valid_range: Smallest and largest value of a feature; None takes the range that the data's
            card states. Without any, features are not limited, and ``epsilon`` must be given.
        method: ``"ibp"`` is interval arithmetic. ``"crown"`` adds linear relaxation (CROWN) for
            samples that are still unknown and for all gradients. It is tighter, and far slower on
            convolutional nets. ``"auto"`` relaxes for unknown samples only, and only if the net has
            at most 8192 hidden units.
        batch_size: Number of samples in a batch.
        num_steps: Number of steps of an attack.
        num_restarts: Number of random starts of an attack.
        seed: Random seed for the attacks' starts.
        progress: Whether to show a progress bar.

    Raises:
        UnsupportedLayerError: The model has layers without bounds; all are named.
        CertificateError: A proof contradicts the model's own outputs or gradients.
        InvalidBatchError: The data have no masks, or values outside the valid range.
        InvalidSettingError: ``epsilon`` is None and no range is known.

    Example:
        >>> batch = Batch(x=torch.rand(4, 2), y=torch.zeros(4).long(), mask=torch.eye(2)[[0] * 4])
        >>> model = nn.Linear(2, 2)
        >>> model.weight.data = torch.tensor([[0.0, 1.0], [0.0, -1.0]])  # does not read feature 0
        >>> model.bias.data = torch.tensor([0.5, -0.5])
        >>> certify(model, batch, epsilon=None, valid_range=(0, 1)).summary["shares"]["verified"]
        1.0

    References:
        ghitu2025model
    """
    data = as_dataset(data)
    holds_ids = len(data) > 0 and not data.take(torch.tensor([0])).x.is_floating_point()
    if data.card.text is not None or holds_ids:
        raise InvalidBatchError(
            "Expected pixels or columns to move, but got texts, whose words are replaced by "
            "others. Use certify_substitutes (--substitutes)."
        )
    settings = CertificationSettings(
        epsilon=None if epsilon is None else positive_float("epsilon", epsilon),
        valid_range=_find_range(data.card, valid_range, epsilon),
        method=check_choice("method", method, METHODS),
        batch_size=check_integer("batch_size", batch_size),
        num_steps=check_integer("num_steps", num_steps, low=0),
        num_restarts=check_integer("num_restarts", num_restarts),
        seed=check_integer("seed", seed, low=0),
    )
    if not data.has_masks:
        raise InvalidBatchError(
            "Expected data with masks (1 where the model must not look) to certify, but got none."
        )
    refuse_altered_modules(model)  # before the copy: a replaced method belongs to the original
    core = innermost(model)
    double_model = copy.deepcopy(core).double().eval().requires_grad_(False)
    samples: list[Verdict] = []
    counterexamples: list[dict[str, Any]] = []
    rows = list(torch.split(torch.arange(len(data)), batch_size))
    batches: Iterable[Batch] = data.batches(rows)
    if progress:
        batches = track(batches, "Certifying", total=len(rows))
    for number, batch in enumerate(batches):
        with test_time_mode(core), drawn_from(settings.seed, number):
            result = certify_batch(core, double_model, move_to_model(batch, core), settings)
        samples += result.verdicts
        counterexamples += result.counterexamples
        del counterexamples[NUM_COUNTEREXAMPLES:]
    return Certificate(
        samples=tuple(samples),
        settings=asdict(settings),
        model_sha256=model_digest(core.state_dict()),
        data_sha256=data.digest(),
        data=data.card.name,
        groups=data.card.groups,
        counterexamples=tuple(counterexamples),
        versions=library_versions(),
    )


def _find_range(
    card: Card, given: tuple[float, float] | None, epsilon: float | None
) -> tuple[float, float] | None:
    """The range that the user gives, else the one on the card; None is no limit."""
    if given is not None:
        return check_range(given)
    if card.states_range:
        return check_range(card.valid_range)
    if epsilon is None:
        raise InvalidSettingError(
            "Expected a `valid_range` for features that may take every valid value, but neither "
            "the call nor the data's card states one. Give the smallest and largest value, such "
            "as valid_range=(0.0, 1.0), or an `epsilon`."
        )
    return None


@dataclass(frozen=True, kw_only=True)
class CertificationSettings:
    """The checked arguments of `certify`, as they are written into the certificate."""

    epsilon: float | None
    valid_range: tuple[float, float] | None
    method: Literal["ibp", "crown", "auto"]
    batch_size: int
    num_steps: int
    num_restarts: int
    seed: int

    @property
    def search(self) -> dict[str, int]:
        """The settings of an attack."""
        return {"num_steps": self.num_steps, "num_restarts": self.num_restarts}


@dataclass(frozen=True)
class BatchCertificate:
    """Verdicts on the samples of a batch, and the points that refute some of them.

    Args:
        verdicts: One verdict for each sample.
        counterexamples: One counterexample for each refuted sample.
    """

    verdicts: list[Verdict]
    counterexamples: list[dict[str, Any]]


def certify_batch(
    model: nn.Module, double_model: nn.Module, batch: Batch, settings: CertificationSettings
) -> BatchCertificate:
    """Prove or refute for each sample of a batch that its prediction stays.

    Args:
        model: The model as it is deployed, in test mode.
        double_model: The same model in double precision.
        batch: Samples with masks and an index, in the model's precision.
        settings: The settings of `certify`.
    """
    if batch.mask is None or batch.index is None:
        raise InvalidBatchError("Expected every batch to have masks and an index, but one has not.")
    check_within(batch.x, settings.valid_range)
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
            double_model,
            batch[rows],
            prediction[rows],
            epsilon=settings.epsilon,
            valid_range=settings.valid_range,
        )
        results, counterexamples = _decide_predictions(region, settings)
        results |= _bound_gradients(region, settings)
        for position, row in enumerate(rows.tolist()):
            entries[row] |= {name: values[position] for name, values in results.items()}
    return BatchCertificate([Verdict(**entry) for entry in entries], counterexamples)


def _decide_predictions(
    region: Region, settings: CertificationSettings
) -> tuple[dict[str, list[Any]], list[dict[str, Any]]]:
    """Prove, attack, and prove again more tightly where neither decided."""
    refuse_wrong_outputs(region)
    all_rows = torch.arange(len(region.batch), device=region.prediction.device)
    proved = prove_margin(region, all_rows, method="ibp")
    points, changed_to, found = search_margin(region, **settings.search)
    refuted = changed_to != region.prediction
    refuse_contradiction(proved > 0, refuted)
    undecided = (~(proved > 0) & ~refuted).nonzero().flatten()
    if len(undecided) and _uses_relaxation(region, settings):
        tighter = prove_margin(region, undecided, method="crown")
        proved = proved.index_put((undecided,), torch.maximum(proved[undecided], tighter))
    refuse_exceeded_bound("loss of margin", -proved, -found.double())
    status: list[Status] = [
        "verified" if verified else "refuted" if wrong else "unknown"
        for verified, wrong in zip((proved > 0).tolist(), refuted.tolist(), strict=True)
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
    rows = refuted.nonzero().flatten().tolist()
    return columns, [_counterexample(region, row, points, changed_to) for row in rows]


def _uses_relaxation(region: Region, settings: CertificationSettings) -> bool:
    """Whether samples that are still unknown are proved by linear relaxation."""
    if settings.method != "auto":
        return settings.method == "crown"
    return num_hidden_units(region.model, region.batch.x) <= MOST_UNITS


def _bound_gradients(region: Region, settings: CertificationSettings) -> dict[str, list[Any]]:
    """Bound the masked gradients, and search for large ones."""
    columns: dict[str, list[Any]] = {}
    for target in (Target.LOSS, Target.LOGIT):
        nominal = region.gradient(target)
        refuse_wrong_points(region, target, nominal)
        method: Literal["ibp", "crown"] = "crown" if settings.method == "crown" else "ibp"
        bounds = bound_gradient(region, target, method=method)
        refuse_outside(f"the gradient of the {target.value}", nominal, bounds)
        proved = masked_gradient_bound(region, bounds)
        found = search_gradient(region, target, **settings.search)
        refuse_exceeded_bound(f"gradient of the {target.value}", proved, found)
        columns[f"{target.value}_gradient_proved"] = proved.tolist()
        columns[f"{target.value}_gradient_found"] = found.tolist()
    return columns


def _counterexample(region: Region, row: int, points: Tensor, changed_to: Tensor) -> dict[str, Any]:
    index = region.batch.index
    masked = (region.mask[row] != 0).nonzero().flatten()
    return {
        "index": None if index is None else int(index[row]),
        "prediction": int(region.prediction[row]),
        "changed_to": int(changed_to[row]),
        "features": region.columns[masked].tolist(),
        "values": points[row, masked].tolist(),
    }
