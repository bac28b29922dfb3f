"""Penalties on curvature: the norm of the Hessian, and CURE."""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.core.checks import check_integer, positive_float
from rightreasons.core.norms import Norm, check_norm, sample_norm
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives.alignment import PIXEL_DEVIATION, nearby_gradient, source_gradient
from rightreasons.objectives.objective import Objective, Term, Weight
from rightreasons.objectives.recipe import recipe
from rightreasons.probe.probe import Probe
from rightreasons.types import Target

__all__ = ["CURE", "Hessian", "cure", "hessian"]


class Hessian(Term):
    r"""The Hessian's squared Frobenius norm, estimated by random projections.

    .. math:: \frac1K \sum_k \lVert H v_k \rVert_2^2 \approx \lVert H \rVert_F^2, \qquad
        H = \nabla_x^2 f_y(x), \; v_k \sim N(0, I)

    Unit: (logits per squared input unit) squared. Needs a smooth model: the logits of a ReLU net
    are piecewise linear, so their Hessian is zero and the term refuses them.

    Differs from the paper: nothing known. The layer-wise bound of Dombrowski et al. is not here.

    Args:
        num_samples: K; 1 in the alignment paper's code.
        target: The output that is differentiated twice.

    References:
        dombrowski2022towards, joo2023towards
    """

    needs_gradient = True

    def __init__(self, *, num_samples: int = 1, target: Target | str = Target.LOGIT) -> None:
        super().__init__()
        self.num_samples = check_integer("num_samples", num_samples)
        self.target = Target(target)

    @override
    def forward(self, probe: Probe) -> Tensor:
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


@recipe(Hessian)
def hessian(
    task: Term, penalty: Hessian, *, weight: Weight = 1e-3 * PIXEL_DEVIATION**4
) -> Objective:
    """Hessian: logits that bend little; needs a smooth model, such as one with Softplus.

    Example:
        >>> hessian(weight=1e-6).weights
        {'cross_entropy': 1.0, 'hessian': 1e-06}
    """
    return task + weight * penalty


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


class CURE(Term):
    r"""The change of the loss gradient after a step along its sign.

    .. math:: \lVert \nabla_x \ell(x + h z) - \nabla_x \ell(x) \rVert_2^2, \qquad
        z = \frac{\mathrm{sign}\, \nabla_x \ell(x)}{\lVert \mathrm{sign}\, \nabla_x \ell(x) \rVert}

    Both gradients are trained, z is constant. Unit: (nats per input unit) squared.

    Differs from the paper: nothing in the formula. Its public code does not square the norm
    (``norm="l2"``).

    Args:
        epsilon: h, the length of the step over all features together, in input units. The paper's
            1.5 is for inputs in units of about a fifth of [0, 1].
        norm: ``"squared_l2"``, or another of `sample_norm`.

    References:
        moosavi2019robustness
    """

    needs_gradient = True

    def __init__(self, *, epsilon: float = 0.3, norm: Norm = "squared_l2") -> None:
        super().__init__()
        self.epsilon = positive_float("epsilon", epsilon)
        self.norm = check_norm(norm)

    @override
    def forward(self, probe: Probe) -> Tensor:
        source = source_gradient(probe, Target.LOSS, detached=False)
        signs = source.detach().sign()
        lengths = sample_norm(signs, "l2").clamp_min(1.0)  # 0 where the gradient is 0
        steps = self.epsilon * signs / lengths.view(-1, *(1,) * (signs.ndim - 1))
        points = (probe.features.detach() + steps).unsqueeze(0)
        return sample_norm(nearby_gradient(probe, points, Target.LOSS)[0] - source, self.norm)


@recipe(CURE)
def cure(task: Term, penalty: CURE, *, weight: Weight = 0.16) -> Objective:
    """CURE: a loss that bends little in the direction of its gradient.

    The paper has weight 4 and a step of 1.5, for inputs in units of about a fifth of [0, 1].

    Example:
        >>> cure().weights
        {'cross_entropy': 1.0, 'cure': 0.16}
    """
    return task + weight * penalty
