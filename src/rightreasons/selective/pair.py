"""Two models that answer together, and are sure only where both are."""

from __future__ import annotations

from typing import final

from torch import Tensor, nn
from torch.nn import functional

__all__ = ["AbstainingPair"]


@final
class AbstainingPair(nn.Module):
    r"""The product of two models' probabilities, as one model.

    .. math:: f_i(x) = \log \bigl( p_i(x) \, q_i(x) \bigr)

    The class with the largest product is predicted, and MaskTune abstains unless that product is
    above a threshold. The largest logit is its logarithm: measure with ``score="logit"``
    (``"softmax"`` would divide by the sum of the products first, which is another order).

    Args:
        first: Gives logits ``(N, K)``: the model before MaskTune's fine-tuning.
        second: Likewise: the model after it.

    Shape:
        x as both take it; logits ``(N, K)``, all at most 0.

    Example:
        >>> import torch
        >>> pair = AbstainingPair(nn.Identity(), nn.Identity())
        >>> pair(torch.zeros(1, 2)).exp()  # 1/2 times 1/2
        tensor([[0.2500, 0.2500]])

    References:
        asgari2022masktune
    """

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first = first
        self.second = second

    def forward(self, x: Tensor) -> Tensor:
        """Samples ``(N, *S)`` -> logarithms ``(N, K)`` of the products."""
        both = (functional.log_softmax(model(x), dim=1) for model in (self.first, self.second))
        return sum(both)  # type: ignore[return-value]
