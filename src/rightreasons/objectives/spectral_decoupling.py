"""Spectral decoupling: small logits, so that several features are learned."""

from __future__ import annotations

import math

from torch import Tensor
from typing_extensions import override

from rightreasons.errors import InvalidSettingError
from rightreasons.objectives.objective import Objective, Term, Weight
from rightreasons.objectives.recipe import recipe
from rightreasons.probe.probe import Probe

__all__ = ["SpectralDecoupling", "spectral_decoupling"]


class SpectralDecoupling(Term):
    r"""Half the squared distance of the logits from a point.

    .. math:: \frac12 \lVert f(x) - \gamma \rVert_2^2

    The gradient of cross-entropy vanishes once the strongest feature fits a sample, so that weaker
    features are not learned. With this penalty in the place of weight decay it does not vanish.

    Differs from the paper: one :math:`\gamma` for all classes. Its :math:`\lambda` is the weight.

    Args:
        gamma: :math:`\gamma`; 0, except for unbalanced data.

    References:
        pezeshki2021gradient
    """

    def __init__(self, *, gamma: float = 0.0) -> None:
        super().__init__()
        number = isinstance(gamma, int | float) and not isinstance(gamma, bool)
        if not number or not math.isfinite(gamma):
            raise InvalidSettingError(f"Expected `gamma` to be a finite number, but got {gamma!r}.")
        self.gamma = float(gamma)

    @override
    def forward(self, probe: Probe) -> Tensor:
        return (probe.logits - self.gamma).square().sum(dim=1) / 2


@recipe(SpectralDecoupling)
def spectral_decoupling(
    task: Term, penalty: SpectralDecoupling, *, weight: Weight = 0.1
) -> Objective:
    """Spectral decoupling: small logits, so that weak features are learned too.

    Example:
        >>> spectral_decoupling(weight=0.3).weights
        {'cross_entropy': 1.0, 'spectral_decoupling': 0.3}
    """
    return task + weight * penalty
