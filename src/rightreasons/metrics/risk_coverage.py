"""Selective classification: confidence, risk and coverage, and thresholds."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, final

import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.core.checks import check_choice, check_floats
from rightreasons.core.files import write_json
from rightreasons.core.model_modes import innermost
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
    "check_coverage",
    "confidence",
    "risk_area",
    "selective_accuracy",
    "threshold_for_coverage",
]

Score = Literal["softmax", "logit", "abstain", "selection"]
SCORES: tuple[Score, ...] = ("softmax", "logit", "abstain", "selection")
"""Names of the scores; a larger score means more confident."""
COVERAGES = (1.0, 0.95, 0.9, 0.85, 0.8)


@final
class RiskCoverage(Metric):
    r"""The area under the risk-coverage curve, and the error at some coverages.

    Samples are answered in the order of the model's confidence. With :math:`r_k` the fraction of
    wrong answers among the k most confident, the area is :math:`\frac1N \sum_k r_k`. ``excess`` is
    the area less that of a model with as many errors, all at its least confident answers. Samples
    of equal confidence count alike: values are means over all orders among them. A fraction of N
    samples that is no whole number counts the last sample in part.

    ============================ ==========================================================
    ``error/95``                 fraction of wrong answers among the 95 % most confident
    ``worst_group/95``           the same in the worst known group that has any of them
    ``threshold/95``             the confidence which about 95 % of these samples reach
    ``realised/95/coverage``     fraction of samples that reach a threshold set elsewhere
    ``realised/95/error``, ...   among those: ``error`` and ``worst_group``, if there are any
    ============================ ==========================================================

    Only the last two lines describe use in practice, where the threshold is set before the samples
    are known. A run sets it on its validation data, as `selective_run` does.

    Args:
        score: How confidence is computed, see `confidence`.
        coverages: The fraction of samples to answer, above 0 and up to 1, or several in a list.
        thresholds: One for each of ``coverages``, computed on other data with
            `threshold_for_coverage`; None answers all.

    References:
        geifman2017selective, geifman2019bias
    """

    name = "risk_coverage"
    takes_texts = True
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
        self.coverages = tuple(check_coverage(one) for one in numbers)
        if thresholds is not None and len(thresholds) != len(self.coverages):
            raise InvalidSettingError(
                f"Expected `thresholds` for each of the {len(self.coverages)} coverages, but got "
                f"{len(thresholds)}."
            )
        self.thresholds = None if thresholds is None else tuple(thresholds)

    def calibrate(self, values: Mapping[str, float]) -> None:
        """Take the thresholds from the values on validation data."""
        labels = (f"{100 * coverage:g}" for coverage in self.coverages)
        self.thresholds = tuple(values.get(f"threshold/{label}") for label in labels)

    @override
    def measure(self, probe: Probe) -> Rows:
        unknown = torch.full_like(probe.batch.y, -1)
        group = unknown if probe.batch.group is None else probe.batch.group
        correct = probe.logits.argmax(dim=1) == probe.batch.y
        return {"score": confidence(probe, self.score), "correct": correct, "group": group}

    @override
    def summary(self, rows: Rows) -> dict[str, float]:
        score, correct, group = rows["score"], rows["correct"], rows["group"]
        area = risk_area(score, correct)
        result = {"": area, "excess": area - risk_area(correct.double(), correct)}
        for coverage in self.coverages:
            label = f"{100 * coverage:g}"
            for name, value in _errors(_answered(score, coverage), correct, group).items():
                result[f"{name}/{label}"] = value
            if coverage < 1:
                result[f"threshold/{label}"] = threshold_for_coverage(score, coverage)
        for coverage, threshold in zip(self.coverages, self.thresholds or (), strict=False):
            answered = score >= (-math.inf if threshold is None else threshold)
            prefix = f"realised/{100 * coverage:g}"
            result[f"{prefix}/coverage"] = float(answered.double().mean())
            for name, value in _errors(answered.double(), correct, group).items():
                result[f"{prefix}/{name}"] = value
        return result


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """A threshold on a model's confidence, for a target coverage.

    Args:
        coverage: The fraction of validation samples that was to be answered.
        value: Samples are answered from this confidence on; minus infinity answers all.
        score: How confidence is computed, see `confidence`.

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
        check_coverage(self.coverage)
        check_choice("score", self.score, SCORES)
        number = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        if not number or math.isnan(self.value) or self.value == math.inf:
            raise InvalidSettingError(
                f"Expected `value` to be a number, or minus infinity, but got {self.value!r}."
            )

    @classmethod
    def chosen(cls, scores: Tensor, *, coverage: float, score: Score = "softmax") -> Threshold:
        """Choose the threshold on the confidences ``(N,)`` of validation samples."""
        value = threshold_for_coverage(scores, coverage)
        return cls(coverage=coverage, value=value, score=score)

    def answers(self, scores: Tensor) -> Tensor:
        """Whether each sample is answered, ``(N,)``."""
        return scores >= self.value

    def to_json(self, path: str | Path) -> None:
        """Write the threshold to a file; minus infinity is null."""
        write_json(Path(path), asdict(self))

    @classmethod
    def from_json(cls, path: str | Path) -> Threshold:
        """Read a file that `to_json` wrote."""
        try:
            fields: dict[str, Any] = json.loads(Path(path).read_text())
            value = -math.inf if fields["value"] is None else fields["value"]
            return cls(coverage=fields["coverage"], value=value, score=fields["score"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidSettingError(
                f"Expected a threshold as Threshold.to_json wrote it at {path}, but cannot read "
                f"it: {error!r}."
            ) from error


def confidence(probe: Probe, score: Score) -> Tensor:
    r"""The model's confidence in each answer, ``(N,)``; only the order matters.

    ============= =====================================================================
    ``softmax``   softmax response: :math:`p = \max_i p_i(x)`, as :math:`\log p / (1 - p)`
    ``logit``     the largest logit; for an `AbstainingPair` the logarithm of the largest
                  product of both models' probabilities
    ``abstain``   log-odds *not* to abstain, for an `Abstaining` model
    ``selection`` output of the selection head of a SelectiveNet, as log-odds
    ============= =====================================================================

    Log-odds order samples as probabilities do, and still separate those that would all round to 1.
    Scores are rounded to single precision, so that equal ones stay equal however samples were
    batched. The last two need one more pass, as at test time.

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
        ranked = probe.logits.detach().double().sort(dim=1, descending=True).values
        value = ranked[:, 0] - ranked[:, 1:].logsumexp(dim=1)
    elif score == "logit":
        value = probe.logits.detach().double().amax(dim=1)
    elif score == "abstain":
        logits = _side_output(probe, ABSTENTION)
        value = logits[:, :-1].logsumexp(dim=1) - logits[:, -1]
    else:
        value = _side_output(probe, SELECTION)[:, 0]
    return value.float()


def risk_area(scores: Tensor, correct: Tensor) -> float:
    """The area under the risk-coverage curve, see `RiskCoverage`.

    Args:
        scores: The model's confidence in each answer, ``(N,)``.
        correct: Whether the answers are right, ``(N,)``.

    Example:
        >>> risk_area(torch.tensor([3.0, 2.0, 1.0, 0.0]), torch.tensor([True, True, True, False]))
        0.0625
    """
    scores, correct = _check_scores(scores, correct)
    order = scores.argsort(descending=True)
    wrong = (~correct[order]).double()
    # Samples of equal confidence form a block: each counts with the mean error of its block.
    _, block, counts = torch.unique_consecutive(
        scores[order], return_inverse=True, return_counts=True
    )
    mean_wrong = torch.zeros(len(counts), dtype=torch.float64).index_add(0, block, wrong) / counts
    errors = mean_wrong[block].cumsum(dim=0)  # expected among the k most confident
    return float((errors / torch.arange(1, len(errors) + 1)).mean())


def selective_accuracy(scores: Tensor, correct: Tensor, coverage: float) -> float:
    """The fraction of right answers among the most confident fraction of the samples.

    Args:
        scores: The model's confidence in each answer, ``(N,)``.
        correct: Whether the answers are right, ``(N,)``.
        coverage: The fraction to answer; ties and parts of a sample as for `RiskCoverage`.

    Example:
        >>> right = torch.tensor([True, True, False, False])
        >>> selective_accuracy(torch.tensor([3.0, 2.0, 2.0, 0.0]), right, 0.5)
        0.75
    """
    scores, correct = _check_scores(scores, correct)
    return 1 - _errors(_answered(scores, check_coverage(coverage)), correct)["error"]


def threshold_for_coverage(scores: Tensor, coverage: float) -> float:
    """The smallest score to answer, so that about this fraction of samples is answered.

    It is one of the scores: the one whose fraction is nearest to the coverage, and of two as near
    the one that answers more. A coverage of 1 gives minus infinity. Equal scores are all answered
    or all not, so with many ties the fraction may be far from the coverage.

    Args:
        scores: The model's confidence in each answer, ``(N,)``, on other data than those to test.
        coverage: The fraction to answer, above 0 and up to 1.

    Example:
        >>> threshold_for_coverage(torch.tensor([4.0, 3.0, 2.0, 1.0]), 0.75)
        2.0
    """
    scores, _ = _check_scores(scores, torch.ones(scores.shape, dtype=torch.bool))
    if check_coverage(coverage) == 1:
        return -math.inf
    values, counts = torch.unique(scores, return_counts=True)  # ascending
    answered = counts.flip(0).cumsum(dim=0).flip(0).double()
    off = (answered - coverage * len(scores)).abs().round(decimals=6)  # 0.95 is not quite 0.95
    return float(values[int(off.argmin())])  # the first of equals: the lower value


def check_coverage(coverage: object) -> float:
    """Give ``coverage`` back as a float if it is above 0 and at most 1."""
    if isinstance(coverage, bool) or not isinstance(coverage, int | float) or not 0 < coverage <= 1:
        raise InvalidSettingError(
            f"Expected `coverage` to be a fraction above 0 and up to 1, but got {coverage!r}."
        )
    return float(coverage)


def _side_output(probe: Probe, layer: str) -> Tensor:
    core = innermost(probe.model)
    name = side_output(core, layer)
    with torch.no_grad():
        recorded = Probe.at_test_time(core, probe.batch, layers=[name])
    return recorded.activations[name].double()


def _check_scores(scores: Tensor, correct: Tensor) -> tuple[Tensor, Tensor]:
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


def _answered(scores: Tensor, coverage: float) -> Tensor:
    """How much of each sample is answered, ``(N,)`` in [0, 1]; the mean is the coverage."""
    ascending = scores.sort().values
    below = torch.searchsorted(ascending, scores)
    up_to = torch.searchsorted(ascending, scores, right=True)
    remaining = coverage * len(scores) - (len(scores) - up_to)
    return (remaining.double() / (up_to - below)).clamp(0, 1)


def _errors(answered: Tensor, correct: Tensor, group: Tensor | None = None) -> dict[str, float]:
    """Fractions of wrong answers: among all that is answered, and in the worst known group."""
    if not bool(answered.any()):
        return {}
    wrong = (~correct).double()
    result = {"error": float((answered * wrong).sum() / answered.sum())}
    known = [] if group is None else torch.unique(group[(group >= 0) & (answered > 0)]).tolist()
    if group is not None and known:
        weights = [answered * (group == one) for one in known]
        result["worst_group"] = max(float((w * wrong).sum() / w.sum()) for w in weights)
    return result
