"""Insertion, deletion and Adv-Insertion: partial samples in the order of an explanation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, final

import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.attacks import AttributionManipulation, frame_map
from rightreasons.core.checks import check_floats, check_fraction, check_within
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.explainers import Explainer, postprocessed
from rightreasons.explainers.gradients import channel_values
from rightreasons.metrics.explanation_metric import (
    CACHE_ROWS,
    Explainers,
    ExplanationMetric,
    create_explainers,
    rows_in_cache,
    to_channels_last,
)
from rightreasons.metrics.metric import Rows
from rightreasons.probe.probe import Probe
from rightreasons.types import Batch

__all__ = [
    "RATIOS",
    "AdvInsertion",
    "Deletion",
    "Insertion",
    "ReconstructionMetric",
    "Sign",
    "importance_ranks",
    "probability_curve",
    "reconstruction_curve",
]

RATIOS = tuple(step / 20 for step in range(20))
"""The paper's: 0, 0.05, ... 0.95."""
Sign = Literal["absolute", "positive", "signed"]


class ReconstructionMetric(ExplanationMetric):
    """A metric over partial samples: pixels are put in, or taken away, in an attribution's order.

    Args:
        explainers: The explainers to measure, see `ExplanationMetric`.
        ratios: The fraction of the pixels that come first, from 0 to 1, or several in a list.
        baseline: Value of a missing pixel, in input units: a number, or one for each channel. The
            paper's zeros of normalised images are the mean of the training data here.
        sign: Which part of an attribution counts before channels are summed, see `postprocessed`.
    """

    def __init__(
        self,
        *,
        explainers: Explainers = "input_gradient",
        ratios: float | Sequence[float] = RATIOS,
        baseline: float | Sequence[float] = 0.0,
        sign: Sign = "absolute",
    ) -> None:
        super().__init__(explainers=explainers)
        self.ratios = tuple(check_floats("ratios", ratios))
        if not all(0 <= ratio <= 1 for ratio in self.ratios):
            raise InvalidSettingError(
                f"Expected `ratios` to be fractions from 0 to 1, but got {ratios!r}."
            )
        self.baseline = baseline
        self.sign = sign
        postprocessed(torch.zeros(1, 1), sign=sign)  # checks it

    def curves(self, probe: Probe, *, deletes: bool) -> Rows:
        """`curve` of each explainer, for the labels' attributions."""
        maps = self.explain(probe, probe.batch.y)
        return {name: self.curve(probe, one, deletes=deletes) for name, one in maps.items()}

    def curve(self, probe: Probe, attribution: Tensor, *, deletes: bool = False) -> Tensor:
        """The label's probability at each ratio, ``(N, ratios)``, in single precision."""
        ranks = importance_ranks(postprocessed(attribution, sign=self.sign))
        values = probability_curve(
            probe, ranks, ratios=self.ratios, baseline=self.blank(probe), deletes=deletes
        )
        return values.float()

    @override
    def summary(self, rows: Rows) -> dict[str, float]:
        # The mean over samples and ratios of each explainer, then at each ratio.
        means = {name: rows[name].double().mean(dim=0) for name in self._by_name}
        details = {
            f"{name}/{ratio:g}": value
            for name, curve in means.items()
            for ratio, value in zip(self.ratios, curve.tolist(), strict=True)
        }
        overall = {name: float(curve.mean()) for name, curve in means.items()}
        return {**self.headline(overall), **details}

    def blank(self, probe: Probe) -> Tensor:
        """The values of missing pixels; broadcasts to a sample."""
        return channel_values(self.baseline, probe.features)


@final
class Insertion(ReconstructionMetric):
    r"""Insertion: the label's probability as the most important pixels are put in.

    .. math:: \frac1N \sum_{(x, y)} p_y(x \odot m_\gamma + x_o \odot (1 - m_\gamma))

    where :math:`m_\gamma` holds the fraction :math:`\gamma` of the pixels with the largest
    attribution of :math:`y` and :math:`x_o` is an empty image; then the mean over :math:`\gamma`.
    ``insertion`` is that of the first explainer, ``EXPLAINER`` of each, ``EXPLAINER/GAMMA`` the
    curve.

    Differs from the paper: exactly :math:`\gamma` of the pixels, ties in reading order. As in its
    code, :math:`\gamma = 1`, where no order counts, is left out.

    Args:
        explainers: The explainers to measure, see `ExplanationMetric`.
        ratios: Fractions of the pixels that are put in, from 0 to 1.
        baseline: Value of a missing pixel, see `ReconstructionMetric`.
        sign: Which part of an attribution counts, see `ReconstructionMetric`.

    References:
        petsiuk2018rise, joo2023towards
    """

    name = "insertion"
    higher_is_better = True

    @override
    def measure(self, probe: Probe) -> Rows:
        return self.curves(probe, deletes=False)


@final
class Deletion(ReconstructionMetric):
    r"""Deletion: the label's probability as the most important pixels are taken away.

    `Insertion` from the other end: :math:`p_y` of the sample without the fraction :math:`\gamma` of
    its pixels with the largest attribution. Low is good: what mattered went first. ``deletion`` is
    that of the first explainer, ``EXPLAINER`` of each, ``EXPLAINER/GAMMA`` the curve.

    Args:
        explainers: The explainers to measure, see `ExplanationMetric`.
        ratios: Fractions of the pixels that are taken away, from 0 to 1.
        baseline: Value of a missing pixel, see `ReconstructionMetric`.
        sign: Which part of an attribution counts, see `ReconstructionMetric`.

    References:
        petsiuk2018rise
    """

    name = "deletion"
    higher_is_better = False

    @override
    def measure(self, probe: Probe) -> Rows:
        return self.curves(probe, deletes=True)


@final
class AdvInsertion(ReconstructionMetric):
    r"""Adv-Insertion: `Insertion` in the order of a manipulated explanation.

    The order is that of :math:`h_y(x_{adv})`, where :math:`x_{adv}` is the result of a targeted
    `AttributionManipulation` towards a frame. The pixels that are put in are those of :math:`x`.

    ====================== ================================================================
    ``adv_insertion``      mean over samples and ratios, of the first explainer
    ``EXPLAINER``          the same, of each explainer; ``EXPLAINER/GAMMA`` is the curve
    ``EXPLAINER/gap``      loss by the attack: insertion less adv-insertion
    ``EXPLAINER/frame``    fraction of the manipulated map on the frame; ``frame_before`` is
                           that of the sample's own map
    ``EXPLAINER/flipped``  fraction of samples for which the attack found no other input that
                           keeps the prediction; they count with their own map
    ====================== ================================================================

    Differs from the paper: predictions are constrained, see `AttributionManipulation`.

    Args:
        explainers: The explainers to measure; each is attacked on its own.
        ratios: Fractions of the pixels that are put in, from 0 to 1.
        baseline: Value of a missing pixel, in input units.
        sign: Which part of an attribution counts.
        epsilon: Radius of the attack, in input units.
        norm: Norm of the attack, ``"linf"`` or ``"l2"``.
        num_steps: Steps of the attack.
        step_size: Length of a step, as a fraction of ``epsilon``.
        softplus_beta: Sharpness of the Softplus that replaces ReLU in the attacked net; None
            attacks the net itself.
        border: Thickness of the frame, as a fraction of the shorter side.

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
        sign: Sign = "absolute",
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
        for explainer in create_explainers(explainers).values():
            self._attack(explainer, CACHE_ROWS)  # checks the settings

    @override
    def measure(self, probe: Probe) -> Rows:
        x, y = self.check_features(probe), probe.batch.y
        if x.ndim != 4:
            raise InvalidBatchError(
                f"Expected images (N, C, H, W) for AdvInsertion, whose target is a frame, but got "
                f"shape {tuple(x.shape)}. Use Insertion."
            )
        check_within(x, self._valid_range)
        frame = frame_map(*x.shape[2:], border=self.border).to(x)
        rows: Rows = {}
        for name, clean in self.explain(probe, y).items():
            explainer = self._by_name[name]
            attack = self._attack(explainer, probe.rows_for("second_order", CACHE_ROWS))
            result = attack(probe.model, x, y, target=frame, index=probe.batch.index)
            manipulated = explainer(probe.model, result.x, y)
            rows[name] = self.curve(probe, manipulated)
            rows[f"{name}/clean"] = self.curve(probe, clean)
            rows[f"{name}/frame"] = _fraction_on(frame, manipulated)
            rows[f"{name}/frame_before"] = _fraction_on(frame, clean)
            rows[f"{name}/flipped"] = result.flipped
        return rows

    @override
    def summary(self, rows: Rows) -> dict[str, float]:
        result = super().summary(rows)
        for name in self._by_name:
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


def importance_ranks(maps: Tensor) -> Tensor:
    """Each feature's rank in a map: ``(N, *S) -> (N, P)``, 0 is the largest.

    Equal values keep their reading order.

    Example:
        >>> importance_ranks(torch.tensor([[0.2, 0.9, 0.5]]))
        tensor([[2, 0, 1]])
    """
    order = maps.flatten(1).argsort(dim=1, descending=True, stable=True)
    ranks = torch.arange(order.shape[1], device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, ranks)


def reconstruction_curve(
    probe: Probe,
    ranks: Tensor,
    *,
    y: Tensor,
    ratios: Sequence[float],
    baseline: Tensor,
    deletes: bool,
    read: Callable[[Tensor], Tensor] = lambda logits: logits,
) -> Tensor:
    """A class's value for samples with a fraction of their features: ``(N, ratios)``, in double.

    Every ratio of every sample is a row of a stacked pass; rows are built pass by pass. The empty
    image is the same for all samples and is passed once.

    Args:
        probe: A pass over the samples; its `rows_for` is the ceiling.
        ranks: ``(N, P)``, as `importance_ranks` gives them; all channels of a pixel share a rank.
        y: The class of each sample whose value is read, ``(N,)``.
        ratios: Fractions of the features that come first, each rounded to whole features.
        baseline: The values of missing features; broadcasts to a sample.
        deletes: Whether the first features are taken away, or put in.
        read: Maps logits ``(R, K)`` to the classes' values; the logits themselves if left out.
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
        blank_values = read(_logits(probe, blank[None], y[:1]))[0]
        result[:, is_blank] = blank_values[y][:, None]
    columns = (~is_blank).nonzero().flatten()
    max_rows = probe.max_rows or probe.rows_for("values", rows_in_cache(probe))
    pixels, blank_pixels = _pixel_by_pixel(x, num_pixels), _pixel_by_pixel(blank[None], num_pixels)
    for samples in torch.split(torch.arange(len(x), device=x.device), max_rows):
        block = slice(int(samples[0]), int(samples[-1]) + 1)
        order = ranks[block].int().repeat_interleave(blank_pixels.shape[1] // num_pixels, dim=1)
        for some in torch.split(columns, max(1, max_rows // len(samples))):
            comes_first = order[:, None] < counts[some][:, None]  # (samples, ratios, P · C)
            is_kept = ~comes_first if deletes else comes_first
            partial = torch.where(is_kept, pixels[block, None], blank_pixels).flatten(0, 1)
            labels = y[block].repeat_interleave(len(some))
            values = read(_logits(probe, _as_samples(partial, x, num_pixels), labels))
            label_values = values.gather(1, labels[:, None])
            result[block, some] = label_values.reshape(len(samples), len(some))
    return result


def probability_curve(
    probe: Probe, ranks: Tensor, *, ratios: Sequence[float], baseline: Tensor, deletes: bool
) -> Tensor:
    """The label's probability for samples with a fraction of their features: ``(N, ratios)``.

    The arguments are those of `reconstruction_curve`.
    """
    return reconstruction_curve(
        probe,
        ranks,
        y=probe.batch.y,
        ratios=ratios,
        baseline=baseline,
        deletes=deletes,
        read=lambda logits: logits.softmax(dim=1),
    )


def _pixel_by_pixel(x: Tensor, num_pixels: int) -> Tensor:
    """``(N, P · C)``: all channels of a pixel, then the next, as convolutions prefer it."""
    return x.reshape(len(x), -1, num_pixels).transpose(1, 2).flatten(1)


def _as_samples(rows: Tensor, like: Tensor, num_pixels: int) -> Tensor:
    """Undo `_pixel_by_pixel` without a copy: only strides change."""
    return rows.reshape(len(rows), num_pixels, -1).transpose(1, 2).reshape(-1, *like.shape[1:])


def _logits(probe: Probe, features: Tensor, y: Tensor) -> Tensor:
    with torch.no_grad():
        at = Probe.at_test_time(probe.model, Batch.trusted(x=to_channels_last(features), y=y))
    return at.logits.double()


def _fraction_on(frame: Tensor, attribution: Tensor) -> Tensor:
    fractions = postprocessed(attribution, normalise="l1")
    return (frame * fractions).flatten(1).sum(dim=1)
