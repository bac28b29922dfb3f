"""Selective classification: risk and coverage, thresholds, and two models that must agree."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, final

import torch
from torch import Tensor

from rightreasons.core.checks import check_choice, check_floats
from rightreasons.core.files import write_json
from rightreasons.core.second_order import innermost
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.metrics.metric import Metric, Rows
from rightreasons.models.layers import ABSTENTION, SELECTION, side_output
from rightreasons.probe.probe import Probe

__all__ = [
    "COVERAGES",
    "SCORES",
    "RiskCoverage",
    "Score",
    "Threshold",
    "checked_coverage",
    "confidence",
    "risk_area",
    "selective_accuracy",
    "threshold_for_coverage",
]

Score = Literal["softmax", "logit", "abstain", "selection"]
SCORES: tuple[Score, ...] = ("softmax", "logit", "abstain", "selection")
"""Names of the scores; more of one means: surer."""


def confidence(probe: Probe, score: Score) -> Tensor:
    r"""How sure the model is of each answer, ``(N,)``; only the order matters.

    ============= =====================================================================
    ``softmax``   softmax response: :math:`p = \max_i p_i(x)`, as :math:`\log p / (1 - p)`
    ``logit``     the largest logit; of an `AbstainingPair` the logarithm of the largest
                  product of both models' probabilities
    ``abstain``   the probability *not* to abstain, of an `Abstaining` model, as log-odds
    ``selection`` what the selection head of a SelectiveNet gives, as log-odds
    ============= =====================================================================

    Log-odds order samples as probabilities do, and still tell apart those that would all round
    to 1. Scores are rounded to single precision, so that equal ones stay equal however samples
    were batched. The last two take one more pass, as at test time.

    Args:
        probe: Any pass of the model over the samples.
        score: One of `SCORES`.

    Example:
        >>> from torch import nn
        >>> from rightreasons.types import Batch
        >>> batch = Batch(x=torch.tensor([[2.0, 0.0], [0.0, 1.0]]), y=torch.tensor([0, 1]))
        >>> confidence(Probe(nn.Identity(), batch), "softmax")
        tensor([2., 1.])
    """
    if score == "softmax":
        surest = probe.logits.detach().double().sort(dim=1, descending=True).values
        value = surest[:, 0] - surest[:, 1:].logsumexp(dim=1)
    elif score == "logit":
        value = probe.logits.detach().double().amax(dim=1)
    elif score == "abstain":
        logits = _recorded(probe, ABSTENTION)
        value = logits[:, :-1].logsumexp(dim=1) - logits[:, -1]
    else:
        value = _recorded(probe, SELECTION)[:, 0]
    return value.float()


def _recorded(probe: Probe, layer: str) -> Tensor:
    core = innermost(probe.model)
    name = side_output(core, layer)
    with torch.no_grad():
        passed = Probe.at_test_time(core, probe.batch, layers=[name])
    return passed.activations[name].double()


COVERAGES = (1.0, 0.95, 0.9, 0.85, 0.8)


@final
class RiskCoverage(Metric):
    r"""The area under the risk-coverage curve, and the error at some coverages.

    Samples are answered in the order of the model's confidence. With :math:`r_k` the share of
    wrong answers among the k surest, the area is :math:`\frac1N \sum_k r_k`; ``excess`` is by how
    much it is above that of a model with as many errors which answers them last. Samples that are
    equally sure count alike: values are means over all orders among them. A share of N samples
    that is no whole number takes the last one in part.

    ============================ ==========================================================
    ``error/95``                 share of wrong answers among the surest 95 %
    ``worst_group/95``           the same in the worst known group that has any of them
    ``threshold/95``             the confidence which about 95 % of these samples reach
    ``realised/95/coverage``     share of samples that reach a threshold set elsewhere
    ``realised/95/error``, ...   among those: ``error`` and ``worst_group``, if there are any
    ============================ ==========================================================

    Only the last two lines say what a user would meet, who must set a threshold before seeing the
    samples. A run sets them on its validation data, as `selective_run` does.

    Args:
        score: What confidence is, see `confidence`.
        coverages: The share of samples to answer, above 0 and up to 1, or several in a list.
        thresholds: One for each of ``coverages``, as `threshold_for_coverage` gives on other data;
            None answers all.

    References:
        geifman2017selective, geifman2019bias
    """

    name = "risk_coverage"
    higher_is_better = False

    def __init__(
        self,
        *,
        score: Score = "softmax",
        coverages: float | Sequence[float] = COVERAGES,
        thresholds: Sequence[float | None] | None = None,
    ) -> None:
        super().__init__()
        self.score = check_choice("score", score, SCORES)
        numbers = check_floats("coverages", coverages, least=0)
        self.coverages = tuple(checked_coverage(one) for one in numbers)
        if thresholds is not None and len(thresholds) != len(self.coverages):
            raise InvalidSettingError(
                f"Expected `thresholds` for each of the {len(self.coverages)} coverages, but got "
                f"{len(thresholds)}."
            )
        self.thresholds = None if thresholds is None else tuple(thresholds)

    def calibrate(self, values: Mapping[str, float]) -> None:
        """Take the thresholds of validation data, see `Metric.calibrate`."""
        labels = (f"{100 * coverage:g}" for coverage in self.coverages)
        self.thresholds = tuple(values.get(f"threshold/{label}") for label in labels)

    def measure(self, probe: Probe) -> Rows:
        """See `Metric.measure`."""
        unknown = torch.full_like(probe.batch.y, -1)
        group = unknown if probe.batch.group is None else probe.batch.group
        correct = probe.logits.argmax(dim=1) == probe.batch.y
        return {"score": confidence(probe, self.score), "correct": correct, "group": group}

    def summary(self, rows: Rows) -> dict[str, float]:
        """See `Metric.summary`."""
        score, correct, group = rows["score"], rows["correct"], rows["group"]
        area = risk_area(score, correct)
        result = {"": area, "excess": area - risk_area(correct.double(), correct)}
        for coverage in self.coverages:
            label = f"{100 * coverage:g}"
            for name, value in _errors(_kept(score, coverage), correct, group).items():
                result[f"{name}/{label}"] = value
            if coverage < 1:
                result[f"threshold/{label}"] = threshold_for_coverage(score, coverage)
        for coverage, threshold in zip(self.coverages, self.thresholds or (), strict=False):
            kept = score >= (-math.inf if threshold is None else threshold)
            place = f"realised/{100 * coverage:g}"
            result[f"{place}/coverage"] = float(kept.double().mean())
            for name, value in _errors(kept.double(), correct, group).items():
                result[f"{place}/{name}"] = value
        return result


def risk_area(scores: Tensor, correct: Tensor) -> float:
    """The area under the risk-coverage curve, see `RiskCoverage`.

    Args:
        scores: How sure the model is of each answer, ``(N,)``.
        correct: Whether the answers are right, ``(N,)``.

    Example:
        >>> risk_area(torch.tensor([3.0, 2.0, 1.0, 0.0]), torch.tensor([True, True, True, False]))
        0.0625
    """
    scores, correct = _checked(scores, correct)
    order = scores.argsort(descending=True)
    wrong = (~correct[order]).double()
    _, block, counts = torch.unique_consecutive(
        scores[order], return_inverse=True, return_counts=True
    )
    alike = torch.zeros(len(counts), dtype=torch.float64).index_add(0, block, wrong) / counts
    errors = alike[block].cumsum(dim=0)  # expected among the k surest
    return float((errors / torch.arange(1, len(errors) + 1)).mean())


def selective_accuracy(scores: Tensor, correct: Tensor, coverage: float) -> float:
    """The share of right answers among a share of the samples, the surest ones.

    Args:
        scores: How sure the model is of each answer, ``(N,)``.
        correct: Whether the answers are right, ``(N,)``.
        coverage: The share; ties and parts of a sample as for `RiskCoverage`.

    Example:
        >>> right = torch.tensor([True, True, False, False])
        >>> selective_accuracy(torch.tensor([3.0, 2.0, 2.0, 0.0]), right, 0.5)
        0.75
    """
    scores, correct = _checked(scores, correct)
    return 1 - _errors(_kept(scores, checked_coverage(coverage)), correct)["error"]


def threshold_for_coverage(scores: Tensor, coverage: float) -> float:
    """The score from which on to answer, so that about this share of samples is answered.

    One of the scores themselves: that whose share is nearest to the coverage, the larger of two as
    near; a coverage of 1 gives minus infinity. Equal scores are on one side, so with many ties the
    share may be far off.

    Args:
        scores: How sure the model is of each answer, ``(N,)``, on data that are not judged by it.
        coverage: The share, above 0 and up to 1.

    Example:
        >>> threshold_for_coverage(torch.tensor([4.0, 3.0, 2.0, 1.0]), 0.75)
        2.0
    """
    scores, _ = _checked(scores, torch.ones(scores.shape, dtype=torch.bool))
    if checked_coverage(coverage) == 1:
        return -math.inf
    values, counts = torch.unique(scores, return_counts=True)  # ascending
    answered = counts.flip(0).cumsum(dim=0).flip(0).double()
    off = (answered - coverage * len(scores)).abs().round(decimals=6)  # 0.95 is not quite 0.95
    return float(values[int(off.argmin())])  # the first of equals: the lower value


def checked_coverage(coverage: object) -> float:
    """Give ``coverage`` back as a float if it is a share above 0 and up to 1."""
    if isinstance(coverage, bool) or not isinstance(coverage, int | float) or not 0 < coverage <= 1:
        raise InvalidSettingError(
            f"Expected `coverage` to be a share above 0 and up to 1, but got {coverage!r}."
        )
    return float(coverage)


def _checked(scores: Tensor, correct: Tensor) -> tuple[Tensor, Tensor]:
    if scores.ndim != 1 or not len(scores) or bool(scores.isnan().any()):
        raise InvalidBatchError(
            f"Expected `scores` to hold one number a sample, none of them NaN, but got shape "
            f"{tuple(scores.shape)} with {int(scores.isnan().sum())} NaN."
        )
    if correct.shape != scores.shape:
        raise InvalidBatchError(
            f"Expected `correct` of shape {tuple(scores.shape)}, one for each score, but got "
            f"{tuple(correct.shape)}."
        )
    return scores, correct.bool()


def _kept(scores: Tensor, coverage: float) -> Tensor:
    """How much of each sample is answered, ``(N,)`` in [0, 1], together the coverage's share."""
    ascending = scores.sort().values
    below = torch.searchsorted(ascending, scores)
    up_to = torch.searchsorted(ascending, scores, right=True)
    left = coverage * len(scores) - (len(scores) - up_to)
    return (left.double() / (up_to - below)).clamp(0, 1)


def _errors(kept: Tensor, correct: Tensor, group: Tensor | None = None) -> dict[str, float]:
    """Shares of wrong answers among what is kept: of all, and in the worst known group."""
    if not bool(kept.any()):
        return {}
    wrong = (~correct).double()
    result = {"error": float((kept * wrong).sum() / kept.sum())}
    known = [] if group is None else torch.unique(group[(group >= 0) & (kept > 0)]).tolist()
    if group is not None and known:
        inside = [kept * (group == one) for one in known]
        result["worst_group"] = max(float((w * wrong).sum() / w.sum()) for w in inside)
    return result


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """A threshold on a model's confidence, for a target coverage.

    Args:
        coverage: The share of validation samples that was to be answered.
        value: Samples are answered from this confidence on; minus infinity answers all.
        score: What confidence is, see `confidence`.

    Example:
        >>> import torch
        >>> chosen = Threshold.chosen(torch.tensor([4.0, 3.0, 2.0, 1.0]), coverage=0.75)
        >>> chosen.value, chosen.answers(torch.tensor([1.5, 2.5]))
        (2.0, tensor([False,  True]))
    """

    coverage: float
    value: float
    score: Score = "softmax"

    def __post_init__(self) -> None:
        checked_coverage(self.coverage)
        check_choice("score", self.score, SCORES)
        number = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        if not number or math.isnan(self.value) or self.value == math.inf:
            raise InvalidSettingError(
                f"Expected `value` to be a number, or minus infinity, but got {self.value!r}."
            )

    @classmethod
    def chosen(cls, scores: Tensor, *, coverage: float, score: Score = "softmax") -> Threshold:
        """Choose it on the confidences ``(N,)`` of validation samples."""
        value = threshold_for_coverage(scores, coverage)
        return cls(coverage=coverage, value=value, score=score)

    def answers(self, scores: Tensor) -> Tensor:
        """Whether each sample is answered, ``(N,)``."""
        return scores >= self.value

    def to_json(self, path: str | Path) -> None:
        """Write it; minus infinity is null."""
        write_json(Path(path), asdict(self))

    @classmethod
    def from_json(cls, path: str | Path) -> Threshold:
        """Read what `to_json` wrote."""
        try:
            kept: dict[str, Any] = json.loads(Path(path).read_text())
            value = -math.inf if kept["value"] is None else kept["value"]
            return cls(coverage=kept["coverage"], value=value, score=kept["score"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidSettingError(
                f"Expected a threshold as Threshold.to_json wrote it at {path}, but cannot read "
                f"it: {error!r}."
            ) from error
