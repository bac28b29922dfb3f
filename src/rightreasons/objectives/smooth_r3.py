"""Smooth-R3: no smoothed gradient inside the mask."""

from __future__ import annotations

import torch
from torch import Tensor

from rightreasons.norm import Norm, checked_norm, sample_norm
from rightreasons.objectives.objective import Term
from rightreasons.probe import Probe
from rightreasons.setting import checked_choice, checked_factor, checked_number
from rightreasons.target import Target

__all__ = ["SmoothR3"]


class SmoothR3(Term):
    r"""`R3` with SmoothGrad in place of the gradient.

    .. math:: \Big\lVert m \odot \frac1K \sum_k \nabla_x t(x + \xi_k) \Big\rVert_2^2

    with noise on *all* features, as SmoothGrad has it. Unit: as `R3`.

    Differs from the paper: its public code penalises the mean magnitude of the *change*,
    :math:`|\nabla t(x + \xi) - \nabla t(x)|`, with noise upwards only, and divides it by the number
    of masked pixels of the batch, by which it weighs next to nothing.

    Args:
        num_samples: K.
        epsilon: Half the noise's width, or its deviation, in input units.
        noise: ``"uniform"`` or ``"gaussian"``.
        target: What is differentiated.
        norm: ``"squared_l2"`` as for `R3`.

    References:
        smilkov2017smoothgrad, ghitu2025model
    """

    needs_gradient = "inside"

    def __init__(
        self,
        *,
        num_samples: int = 5,
        epsilon: float = 0.1,
        noise: str = "uniform",
        target: Target | str = Target.LOSS,
        norm: Norm = "squared_l2",
    ) -> None:
        super().__init__()
        self.num_samples = checked_number("num_samples", num_samples)
        self.epsilon = checked_factor("epsilon", epsilon)
        self.noise = checked_choice("noise", noise, ("uniform", "gaussian"))
        self.target = Target(target)
        self.norm = checked_norm(norm)

    def forward(self, probe: Probe) -> Tensor:
        """See `Term.forward`."""
        x = probe.features.detach()
        shape = (self.num_samples, *x.shape)
        if self.noise == "uniform":
            drawn = 2 * torch.rand(shape, dtype=x.dtype, device=x.device) - 1
        else:
            drawn = torch.randn(shape, dtype=x.dtype, device=x.device)
        noisy = probe.at((x + self.epsilon * drawn).flatten(0, 1)).inside
        mask = probe.inside.mask
        gradients = noisy.gradient(self.target).view(self.num_samples, *mask.shape)
        return sample_norm(mask * gradients.mean(dim=0), self.norm)
