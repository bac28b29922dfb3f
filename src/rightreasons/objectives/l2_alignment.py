"""Gradients near a sample that differ little from its own."""

from __future__ import annotations

from torch import Tensor

from rightreasons.norm import Norm, checked_norm, sample_norm
from rightreasons.objectives.alignment_term import AlignmentTerm
from rightreasons.target import Target

__all__ = ["L2Alignment"]


class L2Alignment(AlignmentTerm):
    r"""The squared distance of the input gradients at a sample and near it.

    .. math:: \lVert \nabla_x f_y(x + \delta) - \nabla_x f_y(x) \rVert_2^2

    Unit: (logits per input unit) squared. It shrinks with the gradients themselves, which
    `CosineAlignment` does not.

    Differs from the paper: its criterion is the norm (``norm="l2"``); its public code squares it,
    and its weights belong to that.

    Args:
        epsilon: See `AlignmentTerm`.
        perturbation: See `AlignmentTerm`.
        num_samples: See `AlignmentTerm`.
        target: See `AlignmentTerm`.
        detach_source: See `AlignmentTerm`.
        norm: ``"squared_l2"``, or another of `sample_norm`.

    Example:
        >>> from rightreasons.objectives import CosineAlignment, CrossEntropy
        >>> (CrossEntropy() + 6e-4 * L2Alignment() + 1.0 * CosineAlignment()).weights
        {'cross_entropy': 1.0, 'l2_alignment': 0.0006, 'cosine_alignment': 1.0}

    References:
        joo2023towards
    """

    def __init__(
        self,
        *,
        epsilon: float = 4 / 255,
        perturbation: str = "uniform",
        num_samples: int = 1,
        target: Target | str = Target.LOGIT,
        detach_source: bool = True,
        norm: Norm = "squared_l2",
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            perturbation=perturbation,
            num_samples=num_samples,
            target=target,
            detach_source=detach_source,
        )
        self.norm = checked_norm(norm)

    def distance(self, nearby: Tensor, source: Tensor) -> Tensor:
        """See `AlignmentTerm.distance`."""
        return sample_norm(nearby - source, self.norm)
