"""Insertion, deletion and Adv-Insertion: samples rebuilt in the order of an explanation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, final

import torch
from torch import Tensor

from rightreasons.attacks import AttributionManipulation, frame_map
from rightreasons.core.checks import check_floats, check_fraction
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.explainers import Explainer, postprocessed
from rightreasons.metrics.explanation_metric import (
    COMFORTABLE_ROWS,
    Explainers,
    ExplanationMetric,
    attributions,
    comfortable_rows,
    laid_out,
    named_explainers,
)
from rightreasons.metrics.metric import Rows
from rightreasons.probe.probe import Probe
from rightreasons.types import Batch

__all__ = [
    "RATIOS",
    "AdvInsertion",
    "Deletion",
    "Insertion",
    "Reconstruction",
    "importance_ranks",
    "rebuilt",
    "rebuilt_probabilities",
]

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
        self.ratios = tuple(check_floats("ratios", ratios))
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


@final
class Insertion(Reconstruction):
    r"""Insertion: the label's probability as the most important pixels come in.

    .. math:: \frac1N \sum_{(x, y)} p_y(x \odot m_\gamma + x_o \odot (1 - m_\gamma))

    where :math:`m_\gamma` holds the share :math:`\gamma` of the pixels with the largest
    attribution of :math:`y` and :math:`x_o` is an empty image; then the mean over :math:`\gamma`.
    ``insertion`` is that of the first explainer, ``EXPLAINER`` of each, ``EXPLAINER/GAMMA`` the
    curve.

    Differs from the paper: exactly :math:`\gamma` of the pixels, ties in reading order. As in its
    code, :math:`\gamma = 1`, where no order counts, is left out.

    Args:
        explainers: See `ExplanationMetric`.
        ratios: See `Reconstruction`.
        baseline: See `Reconstruction`.
        sign: See `Reconstruction`.

    References:
        petsiuk2018rise, joo2023towards
    """

    name = "insertion"
    higher_is_better = True

    def __init__(
        self,
        *,
        explainers: Explainers = "input_gradient",
        ratios: float | Sequence[float] = RATIOS,
        baseline: float | Sequence[float] = 0.0,
        sign: Literal["absolute", "positive", "signed"] = "absolute",
    ) -> None:
        super().__init__(explainers=explainers, ratios=ratios, baseline=baseline, sign=sign)

    def measure(self, probe: Probe) -> Rows:
        """See `Metric.measure`."""
        x = self.checked(probe)
        found = attributions(self._chosen, probe.model, x, probe.batch.y)
        return {name: self.curve(probe, attribution) for name, attribution in found.items()}

    def summary(self, rows: Rows) -> dict[str, float]:
        """See `Metric.summary`."""
        return self.curve_summary(rows)


@final
class Deletion(Reconstruction):
    r"""Deletion: the label's probability as the most important pixels go.

    `Insertion` from the other end: :math:`p_y` of the sample without the share :math:`\gamma` of
    its pixels with the largest attribution. Low is good: what mattered went first. ``deletion`` is
    that of the first explainer, ``EXPLAINER`` of each, ``EXPLAINER/GAMMA`` the curve.

    Args:
        explainers: See `ExplanationMetric`.
        ratios: See `Reconstruction`.
        baseline: See `Reconstruction`.
        sign: See `Reconstruction`.

    References:
        petsiuk2018rise
    """

    name = "deletion"
    higher_is_better = False

    def __init__(
        self,
        *,
        explainers: Explainers = "input_gradient",
        ratios: float | Sequence[float] = RATIOS,
        baseline: float | Sequence[float] = 0.0,
        sign: Literal["absolute", "positive", "signed"] = "absolute",
    ) -> None:
        super().__init__(explainers=explainers, ratios=ratios, baseline=baseline, sign=sign)

    def measure(self, probe: Probe) -> Rows:
        """See `Metric.measure`."""
        x = self.checked(probe)
        found = attributions(self._chosen, probe.model, x, probe.batch.y)
        return {name: self.curve(probe, h, deletes=True) for name, h in found.items()}

    def summary(self, rows: Rows) -> dict[str, float]:
        """See `Metric.summary`."""
        return self.curve_summary(rows)


@final
class AdvInsertion(Reconstruction):
    r"""Adv-Insertion: `Insertion` in the order of a manipulated explanation.

    The order is that of :math:`h_y(x_{adv})`, where :math:`x_{adv}` is what a targeted
    `AttributionManipulation` towards a frame found; what comes in are the pixels of :math:`x`.

    ====================== ================================================================
    ``adv_insertion``      mean over samples and ratios, of the first explainer
    ``EXPLAINER``          the same, of each explainer; ``EXPLAINER/GAMMA`` is the curve
    ``EXPLAINER/gap``      what the attack cost: insertion less adv-insertion
    ``EXPLAINER/frame``    share of the manipulated map on the frame, ``frame_before`` of the own
    ``EXPLAINER/flipped``  share of samples for which the attack met no other input that keeps
                           the prediction; they count with their own map
    ====================== ================================================================

    Differs from the paper: predictions are constrained, see `AttributionManipulation`.

    Args:
        explainers: See `ExplanationMetric`; each is attacked on its own.
        ratios: See `Reconstruction`.
        baseline: See `Reconstruction`.
        sign: See `Reconstruction`.
        epsilon: See `AttributionManipulation`.
        norm: See `AttributionManipulation`.
        num_steps: See `AttributionManipulation`.
        step_size: See `AttributionManipulation`.
        softplus_beta: See `AttributionManipulation`.
        border: See `frame_map`.

    References:
        joo2023towards
    """

    name = "adv_insertion"
    higher_is_better = True

    def __init__(
        self,
        *,
        explainers: Explainers = "input_gradient",
        ratios: float | Sequence[float] = RATIOS,
        baseline: float | Sequence[float] = 0.0,
        sign: Literal["absolute", "positive", "signed"] = "absolute",
        epsilon: float = 4 / 255,
        norm: Literal["linf", "l2"] = "linf",
        num_steps: int = 100,
        step_size: float = 0.1,
        softplus_beta: float | None = 10.0,
        border: float = 5 / 32,
    ) -> None:
        super().__init__(explainers=explainers, ratios=ratios, baseline=baseline, sign=sign)
        self.epsilon, self.norm, self.num_steps = epsilon, norm, num_steps
        self.step_size, self.softplus_beta = step_size, softplus_beta
        self.border = check_fraction("border", border, below_one=True)
        for explainer in named_explainers(explainers).values():
            self._attack(explainer, COMFORTABLE_ROWS)  # checks the settings

    def measure(self, probe: Probe) -> Rows:
        """See `Metric.measure`."""
        x, y = self.checked(probe), probe.batch.y
        if x.ndim != 4:
            raise InvalidBatchError(
                f"Expected images (N, C, H, W) for AdvInsertion, whose target is a frame, but got "
                f"shape {tuple(x.shape)}. Use Insertion."
            )
        frame = frame_map(*x.shape[2:], border=self.border).to(x)
        rows: Rows = {}
        for name, own in attributions(self._chosen, probe.model, x, y).items():
            explainer = self._chosen[name]
            attack = self._attack(explainer, probe.max_rows or COMFORTABLE_ROWS)
            found = attack(probe.model, x, y, target=frame, index=probe.batch.index)
            bent = explainer(probe.model, found.x, y)
            rows[name] = self.curve(probe, bent)
            rows[f"{name}/clean"] = self.curve(probe, own)
            rows[f"{name}/frame"] = _share_on(frame, bent)
            rows[f"{name}/frame_before"] = _share_on(frame, own)
            rows[f"{name}/flipped"] = found.flipped
        return rows

    def summary(self, rows: Rows) -> dict[str, float]:
        """See `Metric.summary`."""
        result = self.curve_summary(rows)
        for name in self._chosen:
            clean = float(rows[f"{name}/clean"].double().mean(dim=0).mean())
            result[f"{name}/gap"] = clean - result[name]
            for key in ("frame", "frame_before", "flipped"):
                result[f"{name}/{key}"] = float(rows[f"{name}/{key}"].double().mean())
        return result

    def _attack(self, explainer: Explainer, max_rows: int) -> AttributionManipulation:
        return AttributionManipulation(
            explainer=explainer,
            epsilon=self.epsilon,
            norm=self.norm,
            num_steps=self.num_steps,
            step_size=self.step_size,
            valid_range=self._valid_range,
            softplus_beta=self.softplus_beta,
            max_rows=max_rows,
        )


def _share_on(frame: Tensor, attribution: Tensor) -> Tensor:
    shares = postprocessed(attribution, normalise="l1")
    return (frame * shares).flatten(1).sum(dim=1)
