"""Explanations of texts: do they name the rationale, and does the prediction depend on them?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal, final

import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.core.checks import check_choice, check_floats, check_fraction
from rightreasons.datasets.dataset import Dataset, TextCard
from rightreasons.datasets.texts.substitution import ordinary_tokens
from rightreasons.errors import InvalidBatchError
from rightreasons.metrics.metric import (
    Metric,
    Rows,
    bootstrap_means,
    percentile_interval,
    refuse_without_masks,
)
from rightreasons.probe.probe import Probe
from rightreasons.types import Batch, Target

__all__ = ["Comprehensiveness", "RationaleMetric", "Sufficiency", "TokenAgreement", "top_tokens"]

Attribution = Literal["gradient", "input_times_gradient"]


class RationaleMetric(Metric):
    """A metric of the words to which a prediction is attributed.

    Args:
        attribution: Size of a word's attribution: the norm of the gradient at its embedding, or
            the absolute value of embedding times gradient. Both are of the label's logit.
    """

    takes_texts = True
    needs_gradient = True

    def __init__(self, *, attribution: Attribution = "input_times_gradient") -> None:
        super().__init__()
        choices: tuple[Attribution, ...] = ("gradient", "input_times_gradient")
        self.attribution = check_choice("attribution", attribution, choices)
        self._text: TextCard | None = None

    def prepare(self, data: Dataset) -> None:
        """Read which tokens are no words."""
        self._text = data.card.text

    def scores(self, probe: Probe) -> tuple[Tensor, Tensor]:
        """The attribution of each token ``(N, T)``, and which tokens are words ``(N, T)``."""
        if probe.batch.x.is_floating_point():
            raise InvalidBatchError(
                f"Expected texts for {type(self).__name__}, but got {probe.batch.x.dtype} features."
                " Use Insertion and Deletion for images."
            )
        gradient = probe.gradient(Target.LOGIT).detach()
        if self.attribution == "gradient":
            scores = gradient.norm(dim=2)
        else:
            scores = (probe.features.detach() * gradient).sum(dim=2).abs()
        return scores, ordinary_tokens(probe.batch, self._text)


class _Erasure(RationaleMetric):
    """Erases words and compares the label's probability."""

    def __init__(
        self,
        *,
        shares: Sequence[float] = (0.01, 0.05, 0.1, 0.2, 0.5),
        attribution: Attribution = "input_times_gradient",
    ) -> None:
        super().__init__(attribution=attribution)
        self.shares = [check_fraction("shares", share) for share in check_floats("shares", shares)]

    @abstractmethod
    def erased(self, top: Tensor, words: Tensor) -> Tensor:
        """Which words are erased, given the most important ones."""

    @override
    def measure(self, probe: Probe) -> Rows:
        scores, words = self.scores(probe)
        before = _probability(probe.logits, probe.batch)
        changes = []
        for share in self.shares:
            erased = self.erased(top_tokens(scores, words, share), words)
            changes.append(before - _probability(_without(probe, erased), probe.batch))
        return {"change": torch.stack(changes).mean(dim=0)}

    @override
    def summary(self, rows: Rows) -> dict[str, float]:
        change = rows["change"].double()
        low, high = percentile_interval(bootstrap_means(change.numpy()))
        return {"": float(change.mean()), "low": low, "high": high}


@final
class Comprehensiveness(_Erasure):
    r"""Comprehensiveness: what the label's probability loses without the most important words.

    .. math:: \frac1{|B|} \sum_{b \in B} p(y \mid x) - p(y \mid x \setminus x_b)

    with :math:`x_b` the share :math:`b` of words with the largest attribution, at least one. High
    is good: the explanation names what the model uses. Erased words get no attention.

    Differs from the paper: the label's probability, and not that of the predicted class.

    Args:
        shares: The shares B.
        attribution: ``"gradient"`` or ``"input_times_gradient"``, at the embeddings.

    References:
        deyoung2020eraser
    """

    name = "comprehensiveness"
    higher_is_better = True

    @override
    def erased(self, top: Tensor, words: Tensor) -> Tensor:
        return top


@final
class Sufficiency(_Erasure):
    r"""Sufficiency: what the label's probability loses with the most important words alone.

    .. math:: \frac1{|B|} \sum_{b \in B} p(y \mid x) - p(y \mid x_b)

    Low is good: the words that the explanation names are enough. As `Comprehensiveness` else.

    Args:
        shares: The shares B.
        attribution: ``"gradient"`` or ``"input_times_gradient"``, at the embeddings.

    References:
        deyoung2020eraser
    """

    name = "sufficiency"
    higher_is_better = False

    @override
    def erased(self, top: Tensor, words: Tensor) -> Tensor:
        return words & ~top


@final
class TokenAgreement(RationaleMetric):
    r"""Token F1: overlap of the most important words with the rationale, the unmasked words.

    As many words are taken as the rationale has, so precision, recall and F1 are equal.
    ``/iou`` is the intersection over the union, ``/chance`` the F1 of random words. ``/n`` is the
    number of texts. A text counts if it is annotated, with words inside and outside of the mask.

    Args:
        attribution: ``"gradient"`` or ``"input_times_gradient"``, at the embeddings.

    References:
        deyoung2020eraser
    """

    name = "token_agreement"
    higher_is_better = True

    def prepare(self, data: Dataset) -> None:
        """Refuse data without masks."""
        refuse_without_masks(self, data)
        super().prepare(data)

    @override
    def measure(self, probe: Probe) -> Rows:
        scores, words = self.scores(probe)
        rationale = words & (probe.mask[..., 0] == 0)
        size, num_words = rationale.sum(dim=1), words.sum(dim=1)
        rank = scores.masked_fill(~words, -1.0).argsort(dim=1, descending=True).argsort(dim=1)
        both = (rationale & (rank < size[:, None])).sum(dim=1)
        annotated = probe.batch.annotated
        counts = (size > 0) & (size < num_words)
        return {
            "f1": both / size.clamp(min=1),
            "iou": both / (2 * size - both).clamp(min=1),
            "chance": size / num_words.clamp(min=1),
            "counts": counts if annotated is None else counts & annotated,
        }

    @override
    def summary(self, rows: Rows) -> dict[str, float]:
        counts = rows["counts"]
        if not bool(counts.any()):
            return {"n": 0.0}
        f1 = rows["f1"][counts].double()
        low, high = percentile_interval(bootstrap_means(f1.numpy()))
        means = {name: float(rows[name][counts].double().mean()) for name in ("iou", "chance")}
        return {"": float(f1.mean()), "low": low, "high": high, **means, "n": float(counts.sum())}


def top_tokens(scores: Tensor, words: Tensor, share: float) -> Tensor:
    """The share of words with the largest scores in each text, rounded, at least one: ``(N, T)``.

    Example:
        >>> words = torch.tensor([[True, True, True, False]])
        >>> top_tokens(torch.tensor([[1.0, 3.0, 2.0, 9.0]]), words, 0.5)
        tensor([[False,  True,  True, False]])
    """
    rank = scores.masked_fill(~words, -1.0).argsort(dim=1, descending=True).argsort(dim=1)
    wanted = (share * words.sum(dim=1)).round().clamp(min=1)
    return words & (rank < wanted[:, None])


def _without(probe: Probe, erased: Tensor) -> Tensor:
    """The logits of texts in which some words get no attention."""
    batch, inputs = probe.batch, dict(probe.batch.inputs or {})
    attention = inputs.get("attention_mask", torch.ones_like(batch.x))
    inputs["attention_mask"] = attention * (~erased).to(attention)
    with torch.no_grad():
        return Probe.at_test_time(probe.model, batch.with_(inputs=inputs)).logits


def _probability(logits: Tensor, batch: Batch) -> Tensor:
    return logits.detach().softmax(dim=1).gather(1, batch.y[:, None])[:, 0]
