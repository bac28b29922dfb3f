"""Input gradients as explanations: plain, times the input, averaged over noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.core.checks import check_integer, positive_float
from rightreasons.errors import InvalidBatchError
from rightreasons.explainers.explainer import Explainer
from rightreasons.explainers.subject import Subject
from rightreasons.types import Target

__all__ = [
    "InputGradient",
    "InputTimesGradient",
    "SmoothGrad",
    "averaged_gradient",
    "channel_values",
    "stacked_rows",
]


@final
class InputGradient(Explainer):
    r"""The input gradient, or "saliency": how the prediction changes with each feature.

    .. math:: h(x) = \nabla_x t(x)

    Differs from the paper: signs and channels are kept; Simonyan et al. take the largest absolute
    value over channels. `postprocessed` makes maps of absolute values.

    Args:
        target: The number of the prediction that is explained.

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

    .. math:: h(x) = (x - b) \odot \nabla_x t(x)

    For a net of ReLUs without biases the attributions of a logit sum to it, if the baseline b is 0.
    A net that normalises its inputs itself sees :math:`(x - \mu) / \sigma`. The product of that
    input and its gradient is h with the mean :math:`\mu` as the baseline, whatever :math:`\sigma`.

    Args:
        baseline: b, an input without content: a number, or one for each channel.
        target: The number of the prediction that is explained.

    Example:
        >>> import torch
        >>> model = torch.nn.Linear(3, 2, bias=False)
        >>> x, y = torch.rand(1, 3), torch.tensor([1])
        >>> torch.allclose(InputTimesGradient()(model, x, y).sum(), model(x)[0, 1])
        True

    References:
        shrikumar2017learning
    """

    def __init__(
        self, *, baseline: float | Sequence[float] = 0.0, target: Target | str = Target.LOGIT
    ) -> None:
        super().__init__(target=target)
        self.baseline = baseline

    @override
    def attribution(self, subject: Subject) -> Tensor:
        probe = subject.probe()
        return self.multiply(subject.features, probe.gradient(self.target))

    def multiply(self, features: Tensor, gradient: Tensor) -> Tensor:
        """The attribution, given the gradient at the features."""
        return (features - channel_values(self.baseline, features)) * gradient


@final
class SmoothGrad(Explainer):
    r"""SmoothGrad: the gradient averaged over a noisy neighbourhood.

    .. math:: h(x) = \frac1K \sum_k \nabla t(x + \sigma z_k), \quad z_k \sim \mathcal N(0, I)

    Draws are reproducible: all samples get the same K draws of ``seed``, at every call. An
    attribution thus depends neither on the batch nor on earlier calls. A ``generator`` gives each
    sample and each call its own draws, as training needs them.

    Differs from the paper: the noise is in units of the input, and not relative to each image's
    range.

    Args:
        num_draws: Number K of draws; 50 in the paper.
        sigma: Standard deviation of the noise; 10 to 20 per cent of the range in the paper.
        seed: Random seed for the draws.
        generator: Random generator on the CPU, used instead of ``seed``.
        max_rows: The most rows in one stacked pass; None fits a memory budget, 256 at most.
        target: The number of the prediction that is explained.

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
        max_rows: int | None = None,
        target: Target | str = Target.LOGIT,
    ) -> None:
        super().__init__(target=target)
        self.num_draws = check_integer("num_draws", num_draws)
        self.sigma = positive_float("sigma", sigma)
        self.seed = check_integer("seed", seed, low=0)
        self.generator = generator
        self.splits_batches = generator is None  # it draws for the whole batch at once
        self.max_rows = None if max_rows is None else check_integer("max_rows", max_rows)

    @override
    def attribution(self, subject: Subject) -> Tensor:
        features = subject.features
        draws_per_sample = self.generator is not None
        generator = self.generator or torch.Generator().manual_seed(self.seed)
        size = (self.num_draws, len(features) if draws_per_sample else 1, *features.shape[1:])
        noise = self.sigma * torch.randn(size, generator=generator).to(features)

        def altered(copies: Tensor, samples: Tensor) -> Tensor:
            return features[samples] + noise[copies, samples if draws_per_sample else 0]

        weights = torch.full((self.num_draws,), 1 / self.num_draws, dtype=torch.float64)
        return averaged_gradient(
            subject, altered, weights, target=self.target, max_rows=self.max_rows
        )


def channel_values(baseline: float | Sequence[float], features: Tensor) -> Tensor:
    """A number, or one for each channel, as a tensor that broadcasts to the features.

    Args:
        baseline: The number or numbers.
        features: ``(N, C, *S)``.

    Example:
        >>> channel_values([0.5, 0.25], torch.zeros(1, 2, 4, 4)).shape
        torch.Size([2, 1, 1])
    """
    values = torch.as_tensor(baseline, dtype=features.dtype, device=features.device)
    if values.ndim > 1 or (values.ndim and len(values) != features.shape[1]):
        raise InvalidBatchError(
            f"Expected `baseline` to be a number or {features.shape[1]} of them, one for "
            f"each channel, but got {values.numel()}."
        )
    return values.reshape(-1, *[1] * (features.ndim - 2)) if values.ndim else values


def averaged_gradient(
    subject: Subject,
    altered: Callable[[Tensor, Tensor], Tensor],
    weights: Tensor,
    *,
    target: Target,
    max_rows: int | None,
) -> Tensor:
    r"""The weighted sum of gradients at altered copies, :math:`\sum_k w_k \nabla t(x_k)`.

    Copies are made a few at a time, so that memory grows with ``max_rows`` alone. Only a
    graph, if ``create_graph`` asks for one, keeps them all.

    Args:
        subject: The model and the samples.
        altered: Function of the numbers of copies and of samples, both ``(R,)``, that gives the
            features.
        weights: The weight of each copy, ``(K,)``.
        target: The number of the prediction that is differentiated.
        max_rows: The most rows in one pass; None fits a memory budget.

    Returns:
        ``(N, *S)``.
    """
    features = subject.features
    total = torch.zeros_like(features)
    trailing = (1,) * (features.ndim - 1)
    weights = weights.to(features)
    most = subject.rows_for("gradients", max_rows)
    for copies, samples in stacked_rows(len(weights), len(features), most, features.device):
        gradient = subject.probe(altered(copies, samples), samples).gradient(target)
        weighted = weights[copies].reshape(-1, *trailing) * gradient
        total = total.index_add(0, samples, weighted.to(total.dtype))
    return total


def stacked_rows(
    num_copies: int, num_samples: int, max_rows: int, device: torch.device
) -> Iterator[tuple[Tensor, Tensor]]:
    """The copy and the sample of each row of stacked copies, at most ``max_rows`` at a time.

    Example:
        >>> for copies, samples in stacked_rows(2, 3, 4, torch.device("cpu")):
        ...     print(copies.tolist(), samples.tolist())
        [0, 0, 0, 1] [0, 1, 2, 0]
        [1, 1] [1, 2]
    """
    total = num_copies * num_samples
    for rows in torch.split(torch.arange(total, device=device), max_rows):
        yield rows // num_samples, rows % num_samples
