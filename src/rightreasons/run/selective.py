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

    For each coverage, a threshold of confidence is chosen on the run's validation data alone. On
    the test data the results say how many samples are answered, and how often wrongly. A run of
    the strategy ``masktune`` is measured as an `AbstainingPair`: the model before fine-tuning
    and the model after it.

    Args:
        folder: Folder of the run.
        score: The measure of confidence, see `confidence`; None takes the one the model is for:
            ``"abstain"``, ``"selection"``, ``"logit"`` for a pair, else ``"softmax"``.
        coverages: Fraction of samples to answer, above 0 and up to 1, or a list of fractions.
        data_dir: Folder with the data set's files, if it is not the run's.
        max_samples: Number of test samples to measure; None is all. Thresholds use all
            validation samples.
        progress: Whether to show bars.

    Returns:
        ``score``; ``pair``, whether two models answer together; ``validation`` and ``test``, the
        values of `RiskCoverage`; ``lines``, one dictionary for each coverage. A line has the target
        ``coverage``, the ``threshold`` (None answers all) and the ``realised`` coverage. Its
        ``error`` and ``worst_group`` are error rates among the answered samples. They are None if
        none is answered, or groups are unknown.
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
