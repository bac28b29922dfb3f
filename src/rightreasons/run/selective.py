"""Let the model of a run abstain: thresholds from validation data, errors on test data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from rightreasons.core.files import load_weights_into
from rightreasons.errors import InvalidSettingError
from rightreasons.metrics.risk_coverage import COVERAGES, RiskCoverage, Score
from rightreasons.metrics.risk_coverage import Threshold as Threshold
from rightreasons.models.layers import ABSTENTION, SELECTION
from rightreasons.models.selective import AbstainingPair as AbstainingPair
from rightreasons.run.run import Run
from rightreasons.training.evaluate import evaluate

__all__ = ["AbstainingPair", "Threshold", "selective_run"]

BEFORE_TUNING = Path("stage-1-train") / "model.safetensors"


def selective_run(
    folder: str | Path,
    *,
    score: Score | None = None,
    coverages: float | Sequence[float] = COVERAGES,
    data_dir: str | None = None,
    max_samples: int | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Measure a finished run as a model that may abstain; nothing is written.

    For each coverage a threshold of confidence is chosen on the run's validation data alone; what
    it comes to on the test data is told: how many samples are answered, and how often wrong. A
    run of the strategy ``masktune`` is measured as an `AbstainingPair` of the model before
    fine-tuning and that after it.

    Args:
        folder: The run's.
        score: What confidence is, see `confidence`; None takes what the model is made for:
            ``"abstain"``, ``"selection"``, ``"logit"`` for a pair, else ``"softmax"``.
        coverages: The share of samples to answer, above 0 and up to 1, or several in a list.
        data_dir: Where the data set's files are, if not where they were.
        max_samples: Measure so many test samples; None is all. Thresholds are from all there are.
        progress: Show bars.

    Returns:
        ``score``; ``pair``, whether two models answer together; ``validation`` and ``test``, the
        values of `RiskCoverage`; ``lines``, one for each coverage: ``coverage``, the target,
        ``threshold`` (None answers all), ``realised`` coverage, and ``error`` and ``worst_group``
        among what is answered (None if that is nothing, or groups are unknown).
    """
    run = Run.open(folder, data_dir)
    data = run.data
    if data.val is None:
        raise InvalidSettingError(
            f"Expected a run with validation data to choose thresholds on, but {run.folder} has "
            "none. Train with some held out."
        )
    model = _deployed_model(run)
    score = _score_of(model) if score is None else score
    chosen = RiskCoverage(score=score, coverages=coverages)
    validation = evaluate(model, data.val, [chosen], progress=progress)
    name = chosen.name
    labels = [f"{100 * coverage:g}" for coverage in chosen.coverages]
    thresholds = [validation.get(f"{name}/threshold/{label}") for label in labels]
    judged = RiskCoverage(score=score, coverages=coverages, thresholds=thresholds)
    test = evaluate(model, data.test, [judged], max_samples=max_samples, progress=progress)
    lines = [
        {
            "coverage": coverage,
            "threshold": threshold,
            "realised": test[f"{name}/realised/{label}/coverage"],
            "error": test.get(f"{name}/realised/{label}/error"),
            "worst_group": test.get(f"{name}/realised/{label}/worst_group"),
        }
        for coverage, threshold, label in zip(judged.coverages, thresholds, labels, strict=True)
    ]
    pair = isinstance(model, AbstainingPair)
    return {"score": score, "pair": pair, "lines": lines, "validation": validation, "test": test}


def _deployed_model(run: Run) -> nn.Module:
    model = run.model
    if run.config.strategy != "masktune" or isinstance(model, AbstainingPair):
        return model
    first = run.config.build_model(run.data)
    load_weights_into(first, run.folder / BEFORE_TUNING)
    return AbstainingPair(first, model).eval()


def _score_of(model: nn.Module) -> Score:
    if isinstance(model, AbstainingPair):
        return "logit"
    layers = {name.split(".")[-1] for name, _ in model.named_modules()}
    if ABSTENTION in layers:
        return "abstain"
    return "selection" if SELECTION in layers else "softmax"
