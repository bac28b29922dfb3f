"""Gradients near a sample that point where its own does."""

from torch import Tensor
from torch.nn import functional

from rightreasons.objectives.alignment_term import AlignmentTerm

__all__ = ["CosineAlignment"]

SMALLEST_NORM = 1e-12


class CosineAlignment(AlignmentTerm):
    r"""The cosine robust criterion: half the cosine distance of nearby gradients.

    .. math:: \frac12 \left(1 - \frac{g^\top g'}{\lVert g \rVert \, \lVert g' \rVert}\right),
        \qquad g = \nabla_x f_y(x), \; g' = \nabla_x f_y(x + \delta)

    From 0 (the same direction) to 1 (the opposite one), without a unit: scaling the model changes
    nothing. A gradient of zero counts as orthogonal, 1/2, and has no gradient itself. The settings
    are those of `AlignmentTerm`.

    Differs from the paper: nothing; the source gradient is held constant as in its experiments.

    References:
        joo2023towards
    """

    def distance(self, nearby: Tensor, source: Tensor) -> Tensor:
        """See `AlignmentTerm.distance`."""
        return (1 - functional.cosine_similarity(nearby, source, dim=1, eps=SMALLEST_NORM)) / 2
