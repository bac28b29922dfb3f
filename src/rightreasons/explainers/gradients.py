"""Input gradients as explanations: plain, times the input, averaged over noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.core.checks import check_integer, positive_float
from rightreasons.explainers.explainer import Explainer
from rightreasons.explainers.subject import Subject
from rightreasons.types import Target

__all__ = ["InputGradient", "InputTimesGradient", "SmoothGrad", "averaged_gradient", "stacked_rows"]


def stacked_rows(
    num_copies: int, num_samples: int, max_rows: int | None, device: torch.device
) -> Iterator[tuple[Tensor, Tensor]]:
    """Number the rows of all copies, at most ``max_rows`` at a time: copy and sample of each.

    Example:
        >>> for copies, samples in stacked_rows(2, 3, 4, torch.device("cpu")):
        ...     print(copies.tolist(), samples.tolist())
        [0, 0, 0, 1] [0, 1, 2, 0]
        [1, 1] [1, 2]
    """
    total = num_copies * num_samples
    for rows in torch.split(torch.arange(total, device=device), max_rows or total):
        yield rows // num_samples, rows % num_samples


def averaged_gradient(
    subject: Subject,
    altered: Callable[[Tensor, Tensor], Tensor],
    weights: Tensor,
    *,
    target: Target,
    max_rows: int | None,
) -> Tensor:
    r"""The weighted sum of gradients at altered copies, :math:`\sum_k w_k \nabla t(x_k)`.

    Copies are made as their turn comes, so that memory grows with ``max_rows`` and not with their
    number; only a graph, if one is asked for, keeps them all.

    Args:
        subject: The model and the samples.
        altered: Gives features for the numbers of copies and of samples, both ``(R,)``.
        weights: ``(K,)``: the weight of each copy.
        target: What is differentiated.
        max_rows: The most rows of one pass; None is no ceiling.

    Returns:
        ``(N, *S)``.
    """
    features = subject.features
    total = torch.zeros_like(features)
    trailing = (1,) * (features.ndim - 1)
    weights = weights.to(features)
    for copies, samples in stacked_rows(len(weights), len(features), max_rows, features.device):
        gradient = subject.probe(altered(copies, samples), samples).gradient(target)
        weighted = weights[copies].reshape(-1, *trailing) * gradient
        total = total.index_add(0, samples, weighted.to(total.dtype))
    return total


@final
class InputGradient(Explainer):
    r"""The input gradient, or "saliency": how the prediction reacts to each feature.

    .. math:: h(x) = \nabla_x t(x)

    Differs from the paper: signs and channels are kept; Simonyan et al. take the largest absolute
    value over channels. See `postprocessed`.

    Args:
        target: See `Explainer`.

    Example:
        >>> import torch
        >>> model = torch.nn.Linear(3, 2, bias=False)
        >>> x, y = torch.rand(1, 3), torch.tensor([1])
        >>> torch.equal(InputGradient()(model, x, y)[0], model.weight[1])
        True

    References:
        simonyan2014deep
    """

    @override
    def attribution(self, subject: Subject) -> Tensor:
        return subject.probe().gradient(self.target)


@final
class InputTimesGradient(Explainer):
    r"""Input times gradient: what each feature adds to a locally linear prediction.

    .. math:: h(x) = x \odot \nabla_x t(x)

    For a net of ReLUs without biases the attributions of a logit sum to it.

    Args:
        target: See `Explainer`.

    Example:
        >>> import torch
        >>> model = torch.nn.Linear(3, 2, bias=False)
        >>> x, y = torch.rand(1, 3), torch.tensor([1])
        >>> torch.allclose(InputTimesGradient()(model, x, y).sum(), model(x)[0, 1])
        True

    References:
        shrikumar2017learning
    """

    @override
    def attribution(self, subject: Subject) -> Tensor:
        probe = subject.probe()
        return subject.features * probe.gradient(self.target)


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
        self.num_draws = check_integer("num_draws", num_draws)
        self.sigma = positive_float("sigma", sigma)
        self.seed = check_integer("seed", seed, low=0)
        self.generator = generator
        self.max_rows = None if max_rows is None else check_integer("max_rows", max_rows)

    @override
    def attribution(self, subject: Subject) -> Tensor:
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
