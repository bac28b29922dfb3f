"""SmoothGrad: the gradient averaged over a noisy neighbourhood."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from rightreasons.explainers.averaged_gradient import averaged_gradient
from rightreasons.explainers.explainer import Explainer
from rightreasons.explainers.subject import Subject
from rightreasons.setting import checked_factor, checked_number
from rightreasons.target import Target

__all__ = ["SmoothGrad"]


@final
class SmoothGrad(Explainer):
    r"""SmoothGrad: the gradient averaged over a noisy neighbourhood.

    .. math:: h(x) = \frac1K \sum_k \nabla t(x + \sigma z_k), \quad z_k \sim \mathcal N(0, I)

    Draws are reproducible: all samples meet the same K draws of ``seed``, at every call, so that an
    attribution depends neither on the batch nor on what was explained before. A ``generator`` gives
    each sample and each call its own draws, as training wants it.

    Differs from the paper: the noise is in units of the input, not a share of each image's range.

    Args:
        num_draws: K; 50 in the paper.
        sigma: Standard deviation of the noise; 10 to 20 per cent of the range in the paper.
        seed: Of the draws.
        generator: Where draws come from instead of ``seed``; on the CPU.
        max_rows: The most rows of one stacked pass; None is no ceiling.
        target: See `Explainer`.

    Example:
        >>> model = torch.nn.Linear(3, 2, bias=False)
        >>> x, y = torch.rand(1, 3), torch.tensor([1])
        >>> torch.allclose(SmoothGrad(num_draws=4)(model, x, y)[0], model.weight[1])
        True

    References:
        smilkov2017smoothgrad
    """

    def __init__(
        self,
        *,
        num_draws: int = 50,
        sigma: float = 0.15,
        seed: int = 0,
        generator: torch.Generator | None = None,
        max_rows: int | None = 256,
        target: Target | str = Target.LOGIT,
    ) -> None:
        super().__init__(target=target)
        self.num_draws = checked_number("num_draws", num_draws)
        self.sigma = checked_factor("sigma", sigma)
        self.seed = checked_number("seed", seed, low=0)
        self.generator = generator
        self.max_rows = None if max_rows is None else checked_number("max_rows", max_rows)

    def attribution(self, subject: Subject) -> Tensor:
        """See `Explainer.attribution`."""
        features = subject.features
        own = self.generator is not None
        generator = self.generator or torch.Generator().manual_seed(self.seed)
        size = (self.num_draws, len(features) if own else 1, *features.shape[1:])
        noise = self.sigma * torch.randn(size, generator=generator).to(features)

        def altered(copies: Tensor, samples: Tensor) -> Tensor:
            return features[samples] + noise[copies, samples if own else 0]

        weights = torch.full((self.num_draws,), 1 / self.num_draws, dtype=torch.float64)
        return averaged_gradient(
            subject, altered, weights, target=self.target, max_rows=self.max_rows
        )
