"""What the terms that align input gradients around a sample have in common."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from rightreasons.errors import InvalidSettingError
from rightreasons.objectives.gradient_pair import (
    PERTURBATIONS,
    Nearby,
    gradient_pair,
    source_gradient,
)
from rightreasons.objectives.objective import Term
from rightreasons.probe import Probe
from rightreasons.setting import checked_choice, checked_factor, checked_flag, checked_number
from rightreasons.target import Target

__all__ = ["AlignmentTerm"]


class AlignmentTerm(Term):
    r"""A distance of the input gradient at a sample and near it, averaged over K points.

    .. math:: \frac1K \sum_k \Gamma\big(\nabla_x t(x + \delta_k), \nabla_x t(x)\big), \qquad
        \delta_k \sim U([-\epsilon, \epsilon]^d)

    Terms with equal settings compare at the same points and share one pass, so that l2 and cosine
    together cost no more than one of them.

    Args:
        epsilon: How far the points are, in input units; 4/255 in the paper.
        perturbation: ``"uniform"`` in the box; ``"gaussian"`` with deviation epsilon; ``"sign"``,
            epsilon times the sign of the source gradient on every feature.
        num_samples: K, 1 as in the paper; ``"sign"`` has one point only.
        target: What is differentiated, the label's logit as in the paper.
        detach_source: Hold the gradient at the sample constant, as the paper does to save time:
            the gradient near it moves towards it. False moves both.
    """

    needs_gradient = True
    at_test_time = True

    def __init__(
        self,
        *,
        epsilon: float = 4 / 255,
        perturbation: str = "uniform",
        num_samples: int = 1,
        target: Target | str = Target.LOGIT,
        detach_source: bool = True,
    ) -> None:
        super().__init__()
        self.epsilon = checked_factor("epsilon", epsilon)
        self.perturbation = checked_choice("perturbation", perturbation, PERTURBATIONS)
        self.num_samples = checked_number("num_samples", num_samples)
        self.target = Target(target)
        self.detach_source = checked_flag("detach_source", detach_source)
        if self.perturbation == "sign" and self.num_samples > 1:
            raise InvalidSettingError(
                f"Expected `num_samples` to be 1 with perturbation='sign', which has one point, "
                f"but got {num_samples}."
            )

    @abstractmethod
    def distance(self, nearby: Tensor, source: Tensor) -> Tensor:
        """Of gradients near the samples and at them, both ``(M, D)`` -> ``(M,)``."""

    def leaves(self, probe: Probe) -> bool:
        """See `Term.leaves`."""
        if self.detach_source:
            source_gradient(probe, self.target, detached=True)
        return self.detach_source

    def forward(self, probe: Probe) -> Tensor:
        """See `Term.forward`."""
        source, nearby = gradient_pair(
            probe,
            Nearby(
                perturbation=self.perturbation,
                epsilon=self.epsilon,
                num_samples=self.num_samples,
                target=self.target,
                detach_source=self.detach_source,
            ),
        )
        rows = nearby.flatten(0, 1).flatten(1)
        own = source.expand_as(nearby).flatten(0, 1).flatten(1)
        return self.distance(rows, own).view(nearby.shape[:2]).mean(dim=0)
