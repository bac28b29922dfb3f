"""Random perturbation similarity of explanations, and similarities of maps."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.core.checks import check_floats, check_integer, check_within, positive_float
from rightreasons.core.rng import sample_noise
from rightreasons.explainers import postprocessed
from rightreasons.explainers.gradients import stacked_rows
from rightreasons.metrics.explanation_metric import (
    CACHE_ROWS,
    Explainers,
    ExplanationMetric,
    attributions,
    to_channels_last,
)
from rightreasons.metrics.metric import Rows
from rightreasons.probe.probe import Probe

__all__ = [
    "RPS",
    "cosine_similarity",
    "pearson_correlation",
    "similarities",
    "structural_similarity",
]

SIMILARITIES = ("cosine", "pearson", "ssim")
WINDOW, SIGMA = 7, 1.5
ROUNDING = 1e-12  # relative to a map's size: what remains of a constant map once it is centred


class RPS(ExplanationMetric):
    r"""Random perturbation similarity: how similar explanations stay under noise on the input.

    .. math:: \frac1N \sum_{(x, y)} \mathbb E_{\delta \sim U[-\epsilon, \epsilon]^d} \,
        S\bigl(h_y(x + \delta), h_y(x)\bigr)

    over maps :math:`h_y`: absolute attributions of the label, summed over channels, divided by
    their largest value. Explanations that noise does not change have 1.

    ================================= =====================================================
    ``rps``                           cosine for the first explainer at the widest noise
    ``EXPLAINER``                     the same for each explainer
    ``EXPLAINER/SIMILARITY/EPSILON``  by similarity (``cosine``, ``pearson``, ``ssim``; the
                                      last for images only) and noise, to four digits
    ================================= =====================================================

    All widths and explainers share the draws, which depend on the seed and the sample. Noise does
    not leave the data's valid range.

    Args:
        explainers: The explainers to measure, see `ExplanationMetric`.
        epsilons: The width of the noise, in input units, or several in a list.
        num_draws: Number of noise draws for each sample; 10 in the paper.
        seed: Random seed for the draws.

    References:
        joo2023towards, dombrowski2022towards
    """

    name = "rps"
    higher_is_better = True

    def __init__(
        self,
        *,
        explainers: Explainers = "input_gradient",
        epsilons: float | Sequence[float] = (4 / 255, 8 / 255, 16 / 255),
        num_draws: int = 10,
        seed: int = 0,
    ) -> None:
        super().__init__(explainers=explainers)
        widths = check_floats("epsilons", epsilons)
        self.epsilons = sorted(positive_float("epsilons", epsilon) for epsilon in widths)
        self.num_draws = check_integer("num_draws", num_draws)
        self.seed = check_integer("seed", seed, low=0)

    @override
    def measure(self, probe: Probe) -> Rows:
        x = self.check_features(probe)
        y, index = probe.batch.y, probe.batch.index
        low, high = self._valid_range
        check_within(x, (low, high))
        lowest, highest = x.clamp(max=low), x.clamp(min=high)
        noise = self._noise(x, index)
        clean = {name: _to_map(one) for name, one in self.explain(probe, y).items()}
        values: dict[str, list[Tensor]] = {name: [] for name in self._by_name}
        max_rows = probe.rows_for("gradients", CACHE_ROWS)
        widths = torch.tensor(self.epsilons, dtype=x.dtype, device=x.device)
        num_copies = len(widths) * self.num_draws
        trailing = (1,) * (x.ndim - 1)
        for copies, samples in stacked_rows(num_copies, len(x), max_rows, x.device):
            width = widths[copies // self.num_draws].reshape(-1, *trailing)
            noisy = x[samples] + width * noise[copies % self.num_draws, samples]
            noisy = to_channels_last(noisy.clamp(lowest[samples], highest[samples]))
            for name, one in attributions(self._by_name, probe.model, noisy, y[samples]).items():
                values[name].append(similarities(clean[name][samples], _to_map(one)))
        shape = (len(widths), self.num_draws, len(x), -1)
        return {
            name: torch.cat(parts).reshape(shape).mean(dim=1).transpose(0, 1).float()
            for name, parts in values.items()  # (widths, N, S) -> (N, widths, S)
        }

    @override
    def summary(self, rows: Rows) -> dict[str, float]:
        values, details = {}, {}
        for name in self._by_name:
            table = rows[name].double().mean(dim=0)  # (widths, similarities)
            values[name] = float(table[-1, 0])
            for row, epsilon in zip(table.tolist(), self.epsilons, strict=True):
                for similarity, value in zip(SIMILARITIES, row, strict=False):
                    details[f"{name}/{similarity}/{epsilon:.4g}"] = value
        return {**self.headline(values), **details}

    def _noise(self, x: Tensor, index: Tensor | None) -> Tensor:
        """Uniform noise from -1 to 1, ``(draws, N, *S)``."""
        index = torch.arange(len(x)) if index is None else index
        noise = sample_noise(index, x.shape[1:], num_draws=self.num_draws, seed=self.seed)
        return noise.to(x).mul_(2).sub_(1)


def similarities(first: Tensor, second: Tensor) -> Tensor:
    """Cosine and correlation of maps, and SSIM if they are images: ``(N, 2)`` or ``(N, 3)``."""
    columns = [cosine_similarity(first, second), pearson_correlation(first, second)]
    if first.ndim == 4:
        columns.append(structural_similarity(first, second))
    return torch.stack(columns, dim=1)


def cosine_similarity(first: Tensor, second: Tensor) -> Tensor:
    r"""The cosine of the angle between maps, ``(N, *S) -> (N,)``, in double precision.

    It is 1 if both are zero, 0 if one is.

    Example:
        >>> one, other = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]])
        >>> cosine_similarity(one, other)
        tensor([0.7071], dtype=torch.float64)
    """
    one, other = first.double().flatten(1), second.double().flatten(1)
    return _cosine(one, other, torch.zeros(len(one), device=one.device, dtype=one.dtype))


def pearson_correlation(first: Tensor, second: Tensor) -> Tensor:
    """The correlation of maps over their features, ``(N, *S) -> (N,)``, in double precision.

    It is 1 if both are constant, 0 if one is.
    """
    one, other = first.double().flatten(1), second.double().flatten(1)
    sizes = torch.maximum(one.norm(dim=1), other.norm(dim=1))
    return _cosine(one - one.mean(1, keepdim=True), other - other.mean(1, keepdim=True), sizes)


def structural_similarity(first: Tensor, second: Tensor) -> Tensor:
    r"""SSIM of maps ``(N, 1, H, W) -> (N,)``, in double precision.

    .. math:: \frac{(2 \mu_1 \mu_2 + c_1)(2 \sigma_{12} + c_2)}
        {(\mu_1^2 + \mu_2^2 + c_1)(\sigma_1^2 + \sigma_2^2 + c_2)}
        \quad\text{with}\quad c_1 = (0.01 r)^2, \; c_2 = (0.03 r)^2

    averaged over pixels. Means and variances are those under a Gaussian window of 7 x 7 pixels
    and deviation 1.5, with zeros beyond the edges. :math:`r` is the range of the first map.

    Differs from the paper's code: the range is each map's own, not that of the batch.

    References:
        wang2004image
    """
    one, other = first.double().squeeze(1), second.double().squeeze(1)
    height, width = one.shape[1:]
    rows, columns = _smoothing_matrix(height, one), _smoothing_matrix(width, one)
    stacked = torch.stack([one, other, one * one, other * other, one * other])
    mean, other_mean, square, other_square, product = rows @ stacked @ columns.T
    spread = one.flatten(1).amax(dim=1) - one.flatten(1).amin(dim=1)
    small, large = ((factor * spread).square()[:, None, None] for factor in (0.01, 0.03))
    covariance = product - mean * other_mean
    variances = (square - mean**2).clamp(min=0) + (other_square - other_mean**2).clamp(min=0)
    numerator = (2 * mean * other_mean + small) * (2 * covariance + large)
    denominator = (mean**2 + other_mean**2 + small) * (variances + large)
    is_zero = denominator == 0
    ratio = torch.where(is_zero, 1, numerator / torch.where(is_zero, 1, denominator))
    return ratio.mean(dim=(1, 2))


def _to_map(attribution: Tensor) -> Tensor:
    return postprocessed(attribution, normalise="max")


def _cosine(one: Tensor, other: Tensor, sizes: Tensor) -> Tensor:
    lengths = [
        torch.where(v.norm(dim=1) <= ROUNDING * sizes, 0, v.norm(dim=1)) for v in (one, other)
    ]
    product = lengths[0] * lengths[1]
    both_zero = (lengths[0] == 0) & (lengths[1] == 0)
    cosine = torch.linalg.vecdot(one, other) / torch.where(product == 0, 1, product)
    return torch.where(product == 0, both_zero.to(cosine), cosine)


def _smoothing_matrix(size: int, like: Tensor) -> Tensor:
    """The Gaussian window as a matrix that smooths one axis."""
    offsets = torch.arange(WINDOW, dtype=like.dtype, device=like.device) - WINDOW // 2
    total = torch.exp(-offsets.square() / (2 * SIGMA**2)).sum()
    pixels = torch.arange(size, dtype=like.dtype, device=like.device)
    distance = pixels[:, None] - pixels
    weights = torch.exp(-distance.square() / (2 * SIGMA**2)) / total
    return torch.where(distance.abs() <= WINDOW // 2, weights, 0)
