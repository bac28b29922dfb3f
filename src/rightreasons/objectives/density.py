"""Density smoothing: small gradients of the log-density that a classifier implies.

It needs no masks. Default weights are for inputs in [0, 1].
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from rightreasons.core.checks import check_choice
from rightreasons.core.model_modes import refuse_dead_ends, translate_autograd_errors
from rightreasons.core.norms import sample_norm
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives.dro import GroupDRO
from rightreasons.objectives.objective import Objective, Term, Weight
from rightreasons.objectives.recipe import recipe
from rightreasons.probe.probe import Probe
from rightreasons.types import Target

__all__ = ["Density", "DensityForm", "density", "group_dro_density"]

DensityForm = Literal["logsumexp", "plain", "stable", "efficient"]
FORMS: tuple[DensityForm, ...] = ("logsumexp", "plain", "stable", "efficient")


class Density(Term):
    r"""The gradient of the input's log-density, as the classifier implies it.

    .. math:: \lVert \nabla_x \log p_\theta(x) \rVert_p, \qquad
        \log p_\theta(x) = \log \sum_i e^{f_i(x)} - \log Z_\theta

    The constant :math:`Z_\theta` has no gradient in x. The term needs no labels and no masks.
    Unit: logits per input unit; a norm over features. Four forms compute the same number:

    - ``logsumexp``: :math:`\nabla_x \log \sum_i e^{f_i}` itself. Exact, stable, one gradient.
    - ``plain``: :math:`\sum_i \nabla_x e^{f_i} / \sum_i e^{f_i}`, equation 4 as written.
    - ``stable``: :math:`\nabla_x f_i - \nabla_x \log(e^{f_i} / \sum_j e^{f_j})` with a class i
      drawn for each sample, equation 5. Two gradients.
    - ``efficient``: :math:`\nabla_x (f_i - \log(e^{f_i} / \sum_j e^{f_j}))`, equation 6. One
      gradient.

    In single precision ``plain`` fails silently for large logits. With several logits of 87 or 88
    its sum is infinite, so that it and its gradient are 0; with one above 89 both are NaN. With all
    logits near -95 its value is right, but the gradient of the weights is NaN. Near -103 both are
    0, and below -105 both are NaN. It is here for the record. The other forms stay finite, agree to
    rounding, and cost the same for any number of classes.

    Differs from the paper: ``logsumexp`` is ours, and the default. The paper calls equation 6 an
    approximation, but it is exact. A gradient is linear, and the difference in it is
    :math:`\log \sum_j e^{f_j}`, whichever class is drawn. The second line of its equation 5 leaves
    out an exponential.

    Args:
        form: One of the four forms above.
        p: Order of the norm, at least 1; ``math.inf`` is the largest feature. The paper's tables
            have 2.

    References:
        yang2024regulating
    """

    needs_gradient = True

    def __init__(self, *, form: DensityForm = "logsumexp", p: float = 2.0) -> None:
        super().__init__()
        self.form = check_choice("form", form, FORMS)
        self.p = _checked_p(p)
        self.compiles = self.form == "logsumexp"

    @override
    def forward(self, probe: Probe) -> Tensor:
        return sample_norm(self._gradient(probe), self.p)

    def _gradient(self, probe: Probe) -> Tensor:
        if self.form == "logsumexp":
            return probe.gradient(Target.LOGSUMEXP)
        logits = probe.logits
        with torch.enable_grad():
            if self.form == "plain":
                powers = logits.exp()
                total = powers.sum(dim=1).view(-1, *(1,) * (probe.features.ndim - 1))
                return _slope(probe, powers) / total
            drawn = torch.randint(logits.shape[1], (len(logits), 1), device=logits.device)
            logit = logits.gather(1, drawn)
            log_softmax = functional.log_softmax(logits, dim=1).gather(1, drawn)
            if self.form == "stable":
                return _slope(probe, logit) - _slope(probe, log_softmax)
            return _slope(probe, logit - log_softmax)


@recipe(Density)
def density(task: Term, penalty: Density, *, weight: Weight = 0.1) -> Objective:
    """Density smoothing: small gradients of the input's log-density.

    The paper's supplement uses weights of 0.1 and 0.2.

    Example:
        >>> density().weights
        {'cross_entropy': 1.0, 'density': 0.1}
    """
    return task + weight * penalty


@recipe(GroupDRO, Density)
def group_dro_density(task: GroupDRO, penalty: Density, *, weight: Weight = 0.1) -> Objective:
    """Group DRO with density smoothing; needs group labels.

    Example:
        >>> group_dro_density().weights
        {'group_dro': 1.0, 'density': 0.1}
    """
    return task + weight * penalty


def _slope(probe: Probe, values: Tensor) -> Tensor:
    with translate_autograd_errors():
        (slope,) = torch.autograd.grad(
            values.sum(), probe.features, create_graph=probe.create_graph, retain_graph=True
        )
    if probe.create_graph:
        refuse_dead_ends(slope)
    return slope


def _checked_p(p: object) -> float:
    if not isinstance(p, int | float) or isinstance(p, bool) or not p >= 1:
        raise InvalidSettingError(
            f"Expected `p` to be a number of at least 1, or math.inf, but got {p!r}."
        )
    return math.inf if p == math.inf else float(p)
