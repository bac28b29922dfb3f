"""A model that bends little at the samples: the Hessian's size, by random projections."""

from __future__ import annotations

import torch
from torch import Tensor

from rightreasons.errors import InvalidSettingError
from rightreasons.norm import sample_norm
from rightreasons.objectives.objective import Term
from rightreasons.probe import Probe
from rightreasons.setting import checked_number
from rightreasons.target import Target

__all__ = ["Hessian"]


class Hessian(Term):
    r"""The Hessian's squared Frobenius norm, estimated by random projections.

    .. math:: \frac1K \sum_k \lVert H v_k \rVert_2^2 \approx \lVert H \rVert_F^2, \qquad
        H = \nabla_x^2 f_y(x), \; v_k \sim N(0, I)

    Unit: (logits per squared input unit) squared. Needs a model that bends: a ReLU net's logits
    do not, so their Hessian is zero and the term refuses them.

    Differs from the paper: nothing known; Dombrowski et al. also give the layer-wise bound, which
    is not here.

    Args:
        num_samples: K; 1 in the alignment paper's code.
        target: What is differentiated twice.

    References:
        dombrowski2022towards, joo2023towards
    """

    needs_gradient = True

    def __init__(self, *, num_samples: int = 1, target: Target | str = Target.LOGIT) -> None:
        super().__init__()
        self.num_samples = checked_number("num_samples", num_samples)
        self.target = Target(target)

    def forward(self, probe: Probe) -> Tensor:
        """See `Term.forward`."""
        create_graph = probe.create_graph
        if not create_graph:
            probe = probe.at(probe.features.detach(), create_graph=True)
        gradient = probe.gradient(self.target)
        sizes = []
        for _ in range(self.num_samples):
            product = _product(gradient, probe.features, create_graph=create_graph)
            if product is None or not bool(product.any()):
                raise InvalidSettingError(
                    f"Expected a model whose {self.target.value} bends, but its Hessian is zero "
                    "everywhere, as that of every net made of ReLUs. Use activation='softplus', "
                    "rr.models.with_softplus(model, 3.0), or target='loss'."
                )
            sizes.append(sample_norm(product, "squared_l2"))
        return torch.stack(sizes).mean(dim=0)


def _product(gradient: Tensor, features: Tensor, *, create_graph: bool) -> Tensor | None:
    """The Hessian times a random vector; None if the gradient does not depend on the features."""
    projection = torch.randn_like(gradient)
    if not gradient.requires_grad:
        return None
    with torch.enable_grad():
        (product,) = torch.autograd.grad(
            gradient,
            features,
            projection,
            create_graph=create_graph,
            retain_graph=True,
            allow_unused=True,
        )
    return product
