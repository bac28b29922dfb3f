"""Does the explanation stay the same when the input trembles?"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rightreasons.explainers import postprocessed
from rightreasons.explainers.averaged_gradient import stacked_rows
from rightreasons.metrics.attribution_choice import Explainers, attributions
from rightreasons.metrics.cache_friendly import COMFORTABLE_ROWS, laid_out
from rightreasons.metrics.explanation_metric import ExplanationMetric
from rightreasons.metrics.map_similarity import (
    cosine_similarity,
    pearson_correlation,
    structural_similarity,
)
from rightreasons.metrics.metric import Rows
from rightreasons.probe import Probe
from rightreasons.sample_noise import sample_noise
from rightreasons.setting import checked_factor, checked_number, checked_numbers

__all__ = ["RPS", "similarities"]

NAMES = ("cosine", "pearson", "ssim")


class RPS(ExplanationMetric):
    r"""Random perturbation similarity: do explanations stay when the input trembles?

    .. math:: \frac1N \sum_{(x, y)} \mathbb E_{\delta \sim U[-\epsilon, \epsilon]^d} \,
        S\bigl(h_y(x + \delta), h_y(x)\bigr)

    over maps :math:`h_y`: absolute attributions of the label, summed over channels, divided by
    their largest value. 1 is an explanation that noise does not change.

    ================================= =====================================================
    ``rps``                           cosine of the first explainer at the largest noise
    ``EXPLAINER``                     the same, of each explainer
    ``EXPLAINER/SIMILARITY/EPSILON``  by similarity (``cosine``, ``pearson``, ``ssim``; the
                                      last for images only) and noise, to four digits
    ================================= =====================================================

    All noises and explainers share the draws, which depend on the seed and the sample. Noise does
    not leave the data's valid range.

    Args:
        explainers: See `ExplanationMetric`.
        epsilons: The width of the noise, in input units, or several in a list.
        num_draws: Of the noise, for each sample; 10 in the paper.
        seed: Of the draws.

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
        widths = checked_numbers("epsilons", epsilons)
        self.epsilons = sorted(checked_factor("epsilons", epsilon) for epsilon in widths)
        self.num_draws = checked_number("num_draws", num_draws)
        self.seed = checked_number("seed", seed, low=0)

    def measure(self, probe: Probe) -> Rows:
        """See `Metric.measure`."""
        x = self.checked(probe)
        y, index = probe.batch.y, probe.batch.index
        low, high = self._valid_range
        lowest, highest = x.clamp(max=low), x.clamp(min=high)
        noise = self._noise(x, index)
        clean = {n: _map(h) for n, h in attributions(self._chosen, probe.model, x, y).items()}
        found: dict[str, list[Tensor]] = {name: [] for name in self._chosen}
        max_rows = probe.max_rows or COMFORTABLE_ROWS
        widths = torch.tensor(self.epsilons, dtype=x.dtype, device=x.device)
        num_copies = len(widths) * self.num_draws
        trailing = (1,) * (x.ndim - 1)
        for copies, samples in stacked_rows(num_copies, len(x), max_rows, x.device):
            width = widths[copies // self.num_draws].reshape(-1, *trailing)
            moved = x[samples] + width * noise[copies % self.num_draws, samples]
            moved = laid_out(moved.clamp(lowest[samples], highest[samples]))
            for name, h in attributions(self._chosen, probe.model, moved, y[samples]).items():
                found[name].append(similarities(clean[name][samples], _map(h)))
        shape = (len(widths), self.num_draws, len(x), -1)
        return {
            name: torch.cat(values).reshape(shape).mean(dim=1).transpose(0, 1).float()
            for name, values in found.items()  # (widths, N, S) -> (N, widths, S)
        }

    def summary(self, rows: Rows) -> dict[str, float]:
        """See `Metric.summary`."""
        values, details = {}, {}
        for name in self._chosen:
            table = rows[name].double().mean(dim=0)  # (widths, similarities)
            values[name] = float(table[-1, 0])
            for place, epsilon in enumerate(self.epsilons):
                for similarity, value in zip(NAMES, table[place].tolist(), strict=False):
                    details[f"{name}/{similarity}/{epsilon:.4g}"] = value
        return {**self.headline(values), **details}

    def _noise(self, x: Tensor, index: Tensor | None) -> Tensor:
        """From -1 to 1, ``(draws, N, *S)``."""
        places = torch.arange(len(x)) if index is None else index
        drawn = sample_noise(places, x.shape[1:], num_draws=self.num_draws, seed=self.seed)
        return drawn.to(x).mul_(2).sub_(1)


def similarities(first: Tensor, second: Tensor) -> Tensor:
    """Cosine and correlation of maps, and SSIM if they are images: ``(N, 2)`` or ``(N, 3)``."""
    columns = [cosine_similarity(first, second), pearson_correlation(first, second)]
    if first.ndim == 4:
        columns.append(structural_similarity(first, second))
    return torch.stack(columns, dim=1)


def _map(attribution: Tensor) -> Tensor:
    return postprocessed(attribution, normalise="max")
