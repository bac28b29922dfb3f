"""Detection of out-of-distribution samples by a model's scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from rightreasons.core.checks import check_integer
from rightreasons.datasets import Dataset, as_dataset
from rightreasons.errors import InvalidBatchError, InvalidSettingError, UnknownNameError
from rightreasons.probe.probe import Probe, move_to_model
from rightreasons.types import Batch, Target

__all__ = ["SCORES", "auroc", "ood_auroc"]

_SCORE_FUNCTIONS: dict[str, Callable[[Probe], Tensor]] = {
    "max_softmax": lambda probe: probe.logits.softmax(dim=1).amax(dim=1),
    "max_logit": lambda probe: probe.logits.amax(dim=1),
    "logsumexp": lambda probe: probe.logits.logsumexp(dim=1),
    "density_gradient": lambda probe: -probe.gradient(Target.LOGSUMEXP).flatten(1).norm(dim=1),
}
SCORES = tuple(_SCORE_FUNCTIONS)
"""Names of the scores; a larger score means: more like the training data."""


def auroc(positive: Tensor, negative: Tensor) -> float:
    r"""The area under the receiver-operating curve, :math:`P(s_+ > s_-) + \frac12 P(s_+ = s_-)`.

    Args:
        positive: Scores ``(P,)`` of the samples that should have high ones.
        negative: Scores ``(Q,)`` of the other samples.

    Example:
        >>> auroc(torch.tensor([2.0, 3.0]), torch.tensor([1.0, 2.0]))
        0.875
    """
    for name, scores in (("positive", positive), ("negative", negative)):
        if scores.ndim != 1 or not len(scores) or bool(scores.isnan().any()):
            raise InvalidBatchError(
                f"Expected `{name}` to hold one number a sample, none of them NaN, but got shape "
                f"{tuple(scores.shape)} with {int(scores.isnan().sum())} NaN."
            )
    below = negative.sort().values
    wins = torch.searchsorted(below, positive)
    wins_and_ties = torch.searchsorted(below, positive, right=True)
    return float((wins + wins_and_ties).double().mean() / (2 * len(negative)))


def ood_auroc(
    model: nn.Module,
    inside: Dataset | Batch,
    outside: Dataset | Batch,
    *,
    scores: Sequence[str] = SCORES,
    batch_size: int = 500,
) -> dict[str, float]:
    r"""How well a model's scores separate samples like its training data from others.

    ==================== ==============================================================
    ``max_softmax``      :math:`\max_i p(i \mid x)`
    ``max_logit``        :math:`\max_i f_i(x)`, the paper's :math:`f_i(x)`
    ``logsumexp``        :math:`\log \sum_i e^{f_i(x)}`, the log-density up to a constant,
                         minus the energy; the paper's :math:`f(x)`
    ``density_gradient`` :math:`-\lVert \nabla_x \log \sum_i e^{f_i(x)} \rVert_2`
    ==================== ==============================================================

    0.5 is chance; below it the score misleads. The model is run as at test time.

    Differs from the paper: its table has the logit "of the label", which samples of another kind
    do not have; here it is the largest. What it writes :math:`f(x)` is read as the log-sum-exp.

    Args:
        model: Gives logits ``(N, K)``.
        inside: Samples like the training data.
        outside: Other samples, of the same shape; their labels are not used.
        scores: Names from `SCORES`.
        batch_size: Number of samples in a pass.

    Returns:
        The area under the curve for each score; samples of ``inside`` should score higher.

    Example:
        >>> inside = Batch(x=torch.tensor([[9.0], [8.0]]), y=torch.tensor([0, 0]))
        >>> outside = Batch(x=torch.tensor([[1.0]]), y=torch.tensor([0]))
        >>> ood_auroc(nn.Identity(), inside, outside, scores=["max_logit"])
        {'max_logit': 1.0}

    References:
        yang2024regulating
    """
    check_integer("batch_size", batch_size)
    if isinstance(scores, str) or not scores:
        raise InvalidSettingError(
            f"Expected `scores` to be a list of names, at least one, but got {scores!r}."
        )
    for name in scores:
        if name not in _SCORE_FUNCTIONS:
            raise UnknownNameError("score", name, SCORES)
    inside_scores, outside_scores = (
        _compute_scores(model, as_dataset(data), scores, batch_size) for data in (inside, outside)
    )
    return {name: auroc(inside_scores[name], outside_scores[name]) for name in scores}


def _compute_scores(
    model: nn.Module, data: Dataset, scores: Sequence[str], batch_size: int
) -> dict[str, Tensor]:
    parts: dict[str, list[Tensor]] = {name: [] for name in scores}
    for batch in data.batches(torch.split(torch.arange(len(data)), batch_size)):
        unlabelled = Batch.trusted(x=batch.x, y=torch.zeros_like(batch.y))
        probe = Probe.at_test_time(
            model,
            move_to_model(unlabelled, model),
            needs_gradient="density_gradient" in scores,
            create_graph=False,
        )
        for name in scores:
            parts[name].append(_SCORE_FUNCTIONS[name](probe).detach().double().cpu())
    return {name: torch.cat(values) for name, values in parts.items()}
