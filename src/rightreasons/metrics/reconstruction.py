"""What insertion games share: samples rebuilt pixel by pixel, in the order of a map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.explainers import postprocessed
from rightreasons.metrics.attribution_choice import Explainers
from rightreasons.metrics.cache_friendly import comfortable_rows, laid_out
from rightreasons.metrics.explanation_metric import ExplanationMetric
from rightreasons.metrics.metric import Rows
from rightreasons.probe import Probe
from rightreasons.setting import checked_numbers
from rightreasons.types import Batch

__all__ = ["RATIOS", "Reconstruction", "importance_ranks", "rebuilt", "rebuilt_probabilities"]

RATIOS = tuple(step / 20 for step in range(20))
"""The paper's: 0, 0.05, ... 0.95."""


def importance_ranks(maps: Tensor) -> Tensor:
    """Each feature's place in the order of a map: ``(N, *S) -> (N, P)``, 0 is the largest.

    Equal values keep their reading order.

    Example:
        >>> importance_ranks(torch.tensor([[0.2, 0.9, 0.5]]))
        tensor([[2, 0, 1]])
    """
    order = maps.flatten(1).argsort(dim=1, descending=True, stable=True)
    places = torch.arange(order.shape[1], device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, places)


def rebuilt(
    probe: Probe,
    ranks: Tensor,
    *,
    y: Tensor,
    ratios: Sequence[float],
    baseline: Tensor,
    deletes: bool,
    read: Callable[[Tensor], Tensor] = lambda logits: logits,
) -> Tensor:
    """A class's number with a share of the features there: ``(N, ratios)``, in double precision.

    Every ratio of every sample is a row of a stacked pass, made as its turn comes. The empty image
    is the same for all samples and is passed once.

    Args:
        probe: Of the samples; its `max_rows` is the ceiling.
        ranks: ``(N, P)``, see `importance_ranks`; a rank serves all channels of a pixel.
        y: The class of each sample whose number is read, ``(N,)``.
        ratios: Shares of the features that come first, each rounded to whole ones.
        baseline: What features are where they are not there; broadcasts to a sample.
        deletes: Whether the first ones are taken away, or put in.
        read: From logits ``(R, K)`` to the classes' numbers; the logits themselves if left out.
    """
    x = probe.features.detach()
    num_pixels = ranks.shape[1]
    blank = baseline.to(x).expand(x.shape[1:])
    counts = torch.tensor(
        [round(ratio * num_pixels) for ratio in ratios], dtype=torch.int32, device=x.device
    )
    is_blank = counts == (num_pixels if deletes else 0)
    result = torch.empty(len(x), len(counts), dtype=torch.float64, device=x.device)
    if bool(is_blank.any()):
        nothing = read(_logits(probe, blank[None], y[:1]))[0]
        result[:, is_blank] = nothing[y][:, None]
    numbers = (~is_blank).nonzero().flatten()
    rows = probe.max_rows or comfortable_rows(probe)
    values_of, empty = _pixel_by_pixel(x, num_pixels), _pixel_by_pixel(blank[None], num_pixels)
    for samples in torch.split(torch.arange(len(x), device=x.device), rows):
        block = slice(int(samples[0]), int(samples[-1]) + 1)
        order = ranks[block].int().repeat_interleave(empty.shape[1] // num_pixels, dim=1)
        for some in torch.split(numbers, max(1, rows // len(samples))):
            first = order[:, None] < counts[some][:, None]  # (samples, ratios, P · C)
            there = ~first if deletes else first
            shown = torch.where(there, values_of[block, None], empty).flatten(0, 1)
            labels = y[block].repeat_interleave(len(some))
            values = read(_logits(probe, _as_samples(shown, x, num_pixels), labels))
            own = values.gather(1, labels[:, None])
            result[block, some] = own.reshape(len(samples), len(some))
    return result


def rebuilt_probabilities(
    probe: Probe, ranks: Tensor, *, ratios: Sequence[float], baseline: Tensor, deletes: bool
) -> Tensor:
    """The label's probability with a share of the features there: ``(N, ratios)``; see `rebuilt`.

    Args:
        probe: As there.
        ranks: As there.
        ratios: As there.
        baseline: As there.
        deletes: As there.
    """
    return rebuilt(
        probe,
        ranks,
        y=probe.batch.y,
        ratios=ratios,
        baseline=baseline,
        deletes=deletes,
        read=lambda logits: logits.softmax(dim=1),
    )


class Reconstruction(ExplanationMetric):
    """A metric over samples that are rebuilt in the order of an attribution.

    Args:
        explainers: See `ExplanationMetric`.
        ratios: The share of the pixels that come first, from 0 to 1, or several in a list.
        baseline: What a pixel is where it is not there, in input units: a number, or one for each
            channel. The paper's zeros of normalised images are the mean of the training data here.
        sign: What of an attribution counts before channels are summed, see `postprocessed`.
    """

    def __init__(
        self,
        *,
        explainers: Explainers,
        ratios: float | Sequence[float],
        baseline: float | Sequence[float],
        sign: Literal["absolute", "positive", "signed"],
    ) -> None:
        super().__init__(explainers=explainers)
        self.ratios = tuple(checked_numbers("ratios", ratios))
        if not all(0 <= ratio <= 1 for ratio in self.ratios):
            raise InvalidSettingError(
                f"Expected `ratios` to be shares from 0 to 1, but got {ratios!r}."
            )
        self.baseline = baseline
        self.sign = sign
        postprocessed(torch.zeros(1, 1), sign=sign)  # checks it

    def curve(self, probe: Probe, attribution: Tensor, *, deletes: bool = False) -> Tensor:
        """The label's probability at each ratio, ``(N, ratios)``, in single precision."""
        ranks = importance_ranks(postprocessed(attribution, sign=self.sign))
        values = rebuilt_probabilities(
            probe, ranks, ratios=self.ratios, baseline=self.blank(probe), deletes=deletes
        )
        return values.float()

    def curve_summary(self, rows: Rows) -> dict[str, float]:
        """The mean over samples and ratios of each explainer, then at each ratio."""
        means = {name: rows[name].double().mean(dim=0) for name in self._chosen}
        details = {
            f"{name}/{ratio:g}": value
            for name, curve in means.items()
            for ratio, value in zip(self.ratios, curve.tolist(), strict=True)
        }
        overall = {name: float(curve.mean()) for name, curve in means.items()}
        return {**self.headline(overall), **details}

    def blank(self, probe: Probe) -> Tensor:
        """What pixels are where they are not there; broadcasts to a sample."""
        blank = torch.as_tensor(self.baseline, dtype=probe.features.dtype)
        if blank.ndim and len(blank) != probe.features.shape[1]:
            raise InvalidBatchError(
                f"Expected `baseline` to be a number or {probe.features.shape[1]} of them, one for "
                f"each channel, but got {len(blank)}."
            )
        return blank.reshape(-1, *[1] * (probe.features.ndim - 2)) if blank.ndim else blank


def _pixel_by_pixel(x: Tensor, num_pixels: int) -> Tensor:
    """``(N, P · C)``: all channels of a pixel, then the next, as convolutions like it."""
    return x.reshape(len(x), -1, num_pixels).transpose(1, 2).flatten(1)


def _as_samples(rows: Tensor, like: Tensor, num_pixels: int) -> Tensor:
    """Undo `_pixel_by_pixel` without a copy: only strides change."""
    return rows.reshape(len(rows), num_pixels, -1).transpose(1, 2).reshape(-1, *like.shape[1:])


def _logits(probe: Probe, features: Tensor, y: Tensor) -> Tensor:
    with torch.no_grad():
        at = Probe.at_test_time(probe.model, Batch.trusted(x=laid_out(features), y=y))
    return at.logits.double()
