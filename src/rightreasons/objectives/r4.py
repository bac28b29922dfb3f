"""R4: a small input gradient everywhere in the masked box, by draws, by an attack or by bounds."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

from torch import Tensor
from typing_extensions import Unpack, override

from rightreasons.attacks import GradientSize, climb, draw_worst_point
from rightreasons.core.checks import check_choice, check_integer, positive_float
from rightreasons.core.norms import Norm, check_norm, sample_norm
from rightreasons.objectives.objective import Objective, Term, Weight
from rightreasons.objectives.recipe import recipe
from rightreasons.objectives.robust_term import BoxSettings, RobustTerm
from rightreasons.probe.masked import MaskedFeatures
from rightreasons.probe.probe import Probe
from rightreasons.types import Interval, Target

__all__ = ["R4", "AdvR4", "CertR4", "Form", "RandR4", "adv_r4", "cert_r4", "rand_r4"]

Form = Literal["gradient", "change"]


class R4Settings(BoxSettings, total=False):
    """Settings of `R4` that its members pass on."""

    target: Target | str
    norm: Norm
    form: Form


class R4(RobustTerm):
    r"""The inner maximum of R4's equation 3; each member approximates it in another way.

    .. math:: \max_{|x' - x| \le \epsilon m} \lVert m \odot \nabla_x t(x') \rVert

    With ``form="change"`` it is the largest *change* of the masked gradient (section 4.2 of the
    paper), :math:`\lVert m \odot (\nabla_x t(x') - \nabla_x t(x)) \rVert`. For the same box, form
    and norm, Rand-R4 and Adv-R4 ≤ maximum ≤ Cert-R4 on every sample. Rand-R4 ≤ Adv-R4 needs the
    same draws: the same ``num_samples``, 5 and 1 by default, and the same random state.

    Args:
        epsilon: Half the box's width where the mask is 1, in input units. None lets masked
            features take every valid value.
        target: The output that is differentiated.
        norm: ``"l1"``, ``"l2"``, ``"squared_l2"`` or a number.
        form: ``"gradient"`` or ``"change"``.
        **settings: ``valid_range`` and the ramp of `RobustTerm`.
    """

    def __init__(
        self,
        *,
        epsilon: float | None,
        target: Target | str = Target.LOSS,
        norm: Norm = "squared_l2",
        form: Form = "gradient",
        **settings: Unpack[BoxSettings],
    ) -> None:
        super().__init__(epsilon=epsilon, **settings)
        self.target = Target(target)
        self.norm = check_norm(norm)
        self.form = check_choice("form", form, ("gradient", "change"))

    @abstractmethod
    def largest(self, masked: MaskedFeatures, interval: Interval, size: GradientSize) -> Tensor:
        """The largest size of each sample's gradient in the box, ``(N,)``."""

    @override
    def forward(self, probe: Probe) -> Tensor:
        masked = probe.masked
        reference = masked.gradient(self.target) if self.form == "change" else None
        size = GradientSize(masked.mask, self.norm, reference)
        return self.largest(masked, self.box(masked), size)


class RandR4(R4):
    r"""The largest masked gradient among points drawn uniformly from the box.

    .. math:: \max_{k \le K} \lVert m \odot \nabla_x t(x + \xi_k) \rVert_2^2, \qquad
        \xi_k \sim U(-\epsilon m, \epsilon m)

    The worst point is chosen without a graph and differentiated once. Unit: as `R3`.

    Differs from the paper: section 4.2.1 has the largest norm of the *change* of the gradient
    (``form="change"``), not squared (``norm="l2"``), of all features. Here it is equation 3's
    gradient itself, its masked part, squared. The public code takes the largest change feature by
    feature, and its norm for the whole batch. Its draws are upwards only; here they are on both
    sides of the sample and stay in the valid range.

    Args:
        epsilon: Half the box's width, see `R4`.
        num_samples: K.
        **settings: The other settings of `R4`.

    References:
        ghitu2025model
    """

    def __init__(
        self,
        *,
        epsilon: float | None = 0.5,
        num_samples: int = 5,
        **settings: Unpack[R4Settings],
    ) -> None:
        super().__init__(epsilon=epsilon, **settings)
        self.num_samples = check_integer("num_samples", num_samples)

    @override
    def largest(self, masked: MaskedFeatures, interval: Interval, size: GradientSize) -> Tensor:
        worst = draw_worst_point(
            masked, interval, size, target=self.target, num_samples=self.num_samples
        )
        return size(masked.at(worst, reach_weights=True).gradient(self.target, create_graph=True))


@recipe(RandR4)
def rand_r4(task: Term, penalty: RandR4, *, weight: Weight = 100.0) -> Objective:
    """Rand-R4: no masked gradient at random points of the masked box.

    Example:
        >>> rand_r4(weight=3.0).weights
        {'cross_entropy': 1.0, 'rand_r4': 3.0}
    """
    return task + weight * penalty


class AdvR4(R4):
    r"""The largest masked gradient found by projected sign-gradient ascent.

    .. math:: x' \leftarrow \Pi\left(x' + \alpha \, \mathrm{sign}\, \nabla_{x'}
        \lVert m \odot \nabla_x t(x') \rVert\right)

    The ascent climbs the penalty itself, begins at the worst of ``num_samples`` draws and keeps
    the best point it passed. That point is then differentiated once. Unit: as `R3`.

    Differs from the paper: section 4.2.2 climbs the unsquared norm of the *change* of the gradient
    (``form="change", norm="l2"``) and begins at the sample itself, where the change has no slope.
    Here the ascent climbs the squared norm of the masked gradient and begins at a random point. It
    ends at the best point it passed, in the paper at the last. The public code climbs the plain
    loss, with steps as wide as the box, and its penalty has no gradient with respect to the
    weights.

    Args:
        epsilon: Half the box's width, see `R4`.
        num_steps: Number of steps of the ascent.
        step_size: Length of a step, as a share of the box's width (2 epsilon) on each feature.
        num_samples: Number of draws to begin with. With the number and the random state of Rand-R4
            the term is never below Rand-R4.
        **settings: The other settings of `R4`.

    References:
        ghitu2025model
    """

    def __init__(
        self,
        *,
        epsilon: float | None = 0.5,
        num_steps: int = 3,
        step_size: float = 0.25,
        num_samples: int = 1,
        **settings: Unpack[R4Settings],
    ) -> None:
        super().__init__(epsilon=epsilon, **settings)
        self.num_steps = check_integer("num_steps", num_steps)
        self.step_size = positive_float("step_size", step_size)
        self.num_samples = check_integer("num_samples", num_samples)

    @override
    def largest(self, masked: MaskedFeatures, interval: Interval, size: GradientSize) -> Tensor:
        target = self.target
        start = draw_worst_point(
            masked, interval, size, target=target, num_samples=self.num_samples
        )
        worst = climb(
            masked,
            interval,
            size,
            start,
            target=target,
            num_steps=self.num_steps,
            step_size=self.step_size,
        )
        return size(masked.at(worst, reach_weights=True).gradient(target, create_graph=True))


@recipe(AdvR4)
def adv_r4(task: Term, penalty: AdvR4, *, weight: Weight = 100.0) -> Objective:
    """Adv-R4: no masked gradient where an attack on it ends.

    Example:
        >>> adv_r4(weight=3.0).weights
        {'cross_entropy': 1.0, 'adv_r4': 3.0}
    """
    return task + weight * penalty


class CertR4(R4):
    r"""An upper bound of the largest masked gradient, by interval arithmetic.

    .. math:: \lVert m \odot \max(|l|, |u|) \rVert_2^2 \quad\text{with}\quad
        l \le \nabla_x t(x') \le u \;\; \text{for all}\;\; |x' - x| \le \epsilon m

    Exact at epsilon 0, where it is `R3`, and looser with depth: deep nets need a small epsilon and
    a ramp. Unit: as `R3`.

    Differs from the paper: section 4.2.3 bounds the *change* of the gradient, not squared. Here it
    is the squared norm of the largest magnitude; the public code sums :math:`|l| + |u|` (nearly
    ``norm="l1"``). The bounds are those of the loss that is trained.

    Args:
        epsilon: Half the box's width, see `R4`.
        **settings: The other settings of `R4`.

    References:
        ghitu2025model
    """

    def __init__(self, *, epsilon: float | None = 0.1, **settings: Unpack[R4Settings]) -> None:
        super().__init__(epsilon=epsilon, **settings)

    @override
    def largest(self, masked: MaskedFeatures, interval: Interval, size: GradientSize) -> Tensor:
        _, gradient = masked.gradient_box(interval, self.target)
        center = gradient.center if size.reference is None else gradient.center - size.reference
        return sample_norm(masked.mask * (center.abs() + gradient.radius), self.norm)


@recipe(CertR4)
def cert_r4(task: Term, penalty: CertR4, *, weight: Weight = 10.0) -> Objective:
    """Cert-R4: a small proven bound of the masked gradient in the masked box.

    Example:
        >>> cert_r4(weight=3.0).weights
        {'cross_entropy': 1.0, 'cert_r4': 3.0}
    """
    return task + weight * penalty
