"""IGA: input gradients that look like the image, and more so than those of the runner-up."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from rightreasons.objectives.ball_term import BallTerm
from rightreasons.objectives.cosine_alignment import SMALLEST_NORM
from rightreasons.probe import Probe
from rightreasons.target import Target

__all__ = ["IGA"]


class IGA(BallTerm):
    r"""Input-gradient alignment: a triplet of image, own gradient and the rival's.

    .. math:: \max_{x'} \log\left(1 + e^{d(g^y(x'), x) - d(g^j(x'), x)}\right), \qquad
        d(a, b) = 1 - \cos(a, b)

    with :math:`g^k = \nabla_x f_k` and j the largest logit other than the label's at x'. At most
    :math:`\log(1 + e^2) \approx 2.13`, without a unit. The cosine with the image depends on where
    its zero is: black, with pixels in [0, 1].

    Differs from the paper: the penalty is taken at x' alone (its public code takes the worse of x
    and x'), and the task's loss stays at x, where the paper has it at x' too. Its images are
    normalised, so that their zero is the mean.

    Args:
        epsilon: See `BallTerm`; 8/255 in the paper.
        num_steps: See `BallTerm`; 3 in the paper.
        step_size: See `BallTerm`; 5/255 in the paper.
        valid_range: See `BallTerm`.

    References:
        singh2020attributional
    """

    def __init__(
        self,
        *,
        epsilon: float = 8 / 255,
        num_steps: int = 3,
        step_size: float = 0.3125,
        valid_range: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon, num_steps=num_steps, step_size=step_size, valid_range=valid_range
        )

    def criterion(self, probe: Probe, points: Tensor, *, create_graph: bool) -> Tensor:
        """See `BallTerm.criterion`."""
        moved = probe.at(points, create_graph=create_graph)
        image = probe.features.detach().flatten(1)
        own = moved.gradient(Target.LOGIT).flatten(1)
        rival = own - moved.gradient(Target.MARGIN).flatten(1)  # margin = own - rival
        likeness = [
            functional.cosine_similarity(gradient, image, dim=1, eps=SMALLEST_NORM)
            for gradient in (own, rival)
        ]
        return functional.softplus(likeness[1] - likeness[0])
