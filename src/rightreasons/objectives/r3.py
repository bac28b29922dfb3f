"""R3 and Smooth-R3: no input gradient, plain or smoothed, inside the mask."""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.core.checks import check_choice, check_integer, positive_float
from rightreasons.core.norms import Norm, check_norm, sample_norm
from rightreasons.objectives.objective import Objective, Term, Weight
from rightreasons.objectives.recipe import recipe
from rightreasons.probe.probe import Probe
from rightreasons.types import Target

__all__ = ["R3", "SmoothR3", "r3", "smooth_r3"]


class R3(Term):
    r"""The input gradient inside the mask: "right for the right reasons".

    .. math:: \lVert m \odot \nabla_x t(x) \rVert_2^2

    Unit: (target per input unit) squared; a sum over features. Take inputs in [0, 1] and the loss
    as target. A value of 0.01 means: moving all masked features along the gradient by a length of
    0.1 changes the loss by about 0.01.

    Differs from the papers: Ross et al. 2017 take the gradient of the sum of all classes'
    log-probabilities (``target="log_probabilities"``), and add the squared weights
    (``weight_decay``). R4's text has the gradient of the model without saying of which output;
    its public code differentiates the loss. It divides by the number of values in a batch, so that
    weights of the term are other numbers there, and it sends no gradient to the net. The default
    here is the loss, on which the model's errors depend. The loss has no gradient where the model
    is sure of the label. Where only one class has masks, a model can meet the penalty by taking
    the masked features as a sure sign of this class. With ``target="margin"`` it cannot.

    Args:
        target: The output that is differentiated.
        norm: ``"squared_l2"`` in the papers.

    References:
        ross2017right, ghitu2025model
    """

    needs_gradient = "inside"
    compiles = True

    def __init__(self, *, target: Target | str = Target.LOSS, norm: Norm = "squared_l2") -> None:
        super().__init__()
        self.target = Target(target)
        self.norm = check_norm(norm)

    @override
    def forward(self, probe: Probe) -> Tensor:
        masked = probe.masked
        return sample_norm(masked.mask * masked.gradient(self.target), self.norm)


@recipe(R3)
def r3(task: Term, penalty: R3, *, weight: Weight = 30.0) -> Objective:
    """Right for the right reasons: no input gradient inside the mask.

    Example:
        >>> r3(weight=30.0, weight_decay=1e-4).weights
        {'cross_entropy': 1.0, 'r3': 30.0, 'weight_decay': 0.0001}
    """
    return task + weight * penalty


class SmoothR3(Term):
    r"""`R3` with SmoothGrad in place of the gradient.

    .. math:: \Big\lVert m \odot \frac1K \sum_k \nabla_x t(x + \xi_k) \Big\rVert_2^2

    with noise on *all* features, as in SmoothGrad. Unit: as `R3`.

    Differs from the papers: SmoothGrad's noise is normal, as ``noise="gaussian"``. The default is
    uniform on both sides, since epsilon is then the width of the box that the other members have.
    Draws may leave the valid range. R4's public code penalises the mean magnitude of the *change*,
    :math:`|\nabla t(x + \xi) - \nabla t(x)|`, with uniform noise upwards only. It
    divides by the number of masked pixels in the batch, so that the penalty is nearly zero.

    Args:
        epsilon: Half the noise's width, or its deviation, in input units.
        num_samples: K.
        noise: ``"uniform"`` or ``"gaussian"``.
        target: The output that is differentiated.
        norm: ``"squared_l2"`` as for `R3`.

    References:
        smilkov2017smoothgrad, ghitu2025model
    """

    needs_gradient = "inside"

    def __init__(
        self,
        *,
        epsilon: float = 0.1,
        num_samples: int = 5,
        noise: str = "uniform",
        target: Target | str = Target.LOSS,
        norm: Norm = "squared_l2",
    ) -> None:
        super().__init__()
        self.num_samples = check_integer("num_samples", num_samples)
        self.epsilon = positive_float("epsilon", epsilon)
        self.noise = check_choice("noise", noise, ("uniform", "gaussian"))
        self.target = Target(target)
        self.norm = check_norm(norm)

    @override
    def forward(self, probe: Probe) -> Tensor:
        x = probe.features.detach()
        shape = (self.num_samples, *x.shape)
        if self.noise == "uniform":
            drawn = 2 * torch.rand(shape, dtype=x.dtype, device=x.device) - 1
        else:
            drawn = torch.randn(shape, dtype=x.dtype, device=x.device)
        mask, columns = probe.masked.mask, probe.masked.columns

        def gradient(noisy: Probe) -> Tensor:
            masked, (size, *_) = noisy.masked, noisy.features.shape
            inside = masked.gradient(self.target)
            if len(masked.columns) == len(columns):
                return inside
            # The masks of some samples touch fewer columns than those of the whole batch.
            everywhere = inside.new_zeros(size, x[0].numel())
            return everywhere.index_copy(1, masked.columns, inside).index_select(1, columns)

        gradients = probe.each_at(
            x + self.epsilon * drawn, gradient, create_graph=probe.create_graph
        )
        return sample_norm(mask * gradients.mean(dim=0), self.norm)


@recipe(SmoothR3, num_samples=3)  # fewer than the term draws, since each costs a pass
def smooth_r3(task: Term, penalty: SmoothR3, *, weight: Weight = 100.0) -> Objective:
    """Smooth-R3: no smoothed input gradient inside the mask.

    Example:
        >>> smooth_r3(weight=3.0).weights
        {'cross_entropy': 1.0, 'smooth_r3': 3.0}
    """
    return task + weight * penalty
