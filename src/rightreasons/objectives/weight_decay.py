"""Small weights, as a term of its own, so that an ablation can scale it."""

import torch
from torch import Tensor

from rightreasons.objectives.objective import Term
from rightreasons.probe import Probe

__all__ = ["WeightDecay"]


class WeightDecay(Term):
    r"""The squared norm of the parameters, :math:`\lVert \theta \rVert_2^2`, for every sample.

    Unlike an optimizer's own decay it is part of the loss: it goes through Adam's scaling and it
    is logged. Its weight is the paper's :math:`\beta`; SGD's ``weight_decay=d`` is
    :math:`\beta = d / 2`.

    Args:
        include_vectors: Whether biases and normalisation parameters count; they do in the paper.

    References:
        ross2017right
    """

    def __init__(self, *, include_vectors: bool = True) -> None:
        super().__init__()
        self.include_vectors = include_vectors

    def forward(self, probe: Probe) -> Tensor:
        """See `Term.forward`."""
        parameters = [
            parameter
            for parameter in probe.model.parameters()
            if parameter.requires_grad and (self.include_vectors or parameter.ndim > 1)
        ]
        squares = [parameter.square().sum() for parameter in parameters]
        total = torch.stack(squares).sum() if squares else probe.logits.new_zeros(())
        return total.expand(len(probe.batch))
