"""How far the output can move when masked features move a little: proved, and by attack."""

from __future__ import annotations

import torch
from torch import Tensor

from rightreasons.inside import Inside
from rightreasons.metrics.box_metric import BoxMetric
from rightreasons.metrics.metric import Rows
from rightreasons.probe import Probe
from rightreasons.start_points import start_points
from rightreasons.target import Target
from rightreasons.types import Interval

__all__ = ["CertifiedChange"]

STEP_SIZE = 0.25


class CertifiedChange(BoxMetric):
    r"""The most a target can change inside the box, from bounds of its gradient.

    By the mean value theorem, on the way from :math:`x` to any :math:`x'` of the box,

    .. math:: |t(x') - t(x)| \le \sum_d r_d \, \max(|l_d|, |u_d|)
        \quad\text{with}\quad l \le \nabla_x t \le u \;\;\text{in the box}

    where :math:`r_d` is how far feature d can move: :math:`\epsilon m_d`, less where the valid
    range ends earlier on both sides.

    ======================== ==============================================================
    ``certified_change``     mean over samples with a mask
    ``max``                  the largest
    ``attack``, ``attack_max``  the change that signed steps found, never more than was proved
    ``n``                    samples that count: those with a mask
    ======================== ==============================================================

    Unit: that of the target. A change that is not finite is shown as such.

    Differs from the paper: its Proposition 1 bounds the change by a term of second order, for
    which it takes a bounded gradient for a bounded Hessian; that does not follow. The bound here
    needs the bounded gradient alone and is tighter.

    Args:
        epsilon: See `BoxMetric`.
        target: See `BoxMetric`.
        num_samples: See `BoxMetric`.
        num_steps: See `BoxMetric`.
        seed: See `BoxMetric`.

    References:
        ghitu2025model
    """

    name = "certified_change"

    def __init__(
        self,
        *,
        epsilon: float = 0.1,
        target: Target | str = Target.LOGIT,
        num_samples: int = 1,
        num_steps: int = 5,
        seed: int = 0,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            target=target,
            num_samples=num_samples,
            num_steps=num_steps,
            seed=seed,
        )

    def measure(self, probe: Probe) -> Rows:
        """See `Metric.measure`."""
        inside = probe.inside
        box = self.box(inside)
        values = inside.values.detach()
        reach = torch.maximum(box.upper - values, values - box.lower)
        with torch.no_grad():
            _, gradient = inside.gradient_box(box, self.target)
        steepest = gradient.center.abs() + gradient.radius
        moved = torch.where(reach == 0, 0.0, reach * steepest).double()
        return {
            "counts": probe.mask.flatten(1).any(dim=1),
            "proved": moved.sum(dim=1),
            "attack": self._found(probe, box),
        }

    def summary(self, rows: Rows) -> dict[str, float]:
        """See `Metric.summary`."""
        counts = rows["counts"]
        if not bool(counts.any()):
            return {"n": 0.0}
        proved, attack = rows["proved"][counts], rows["attack"][counts]
        return {
            "": float(proved.mean()),
            "max": float(proved.max()),
            "attack": float(attack.mean()),
            "attack_max": float(attack.max()),
            "n": float(counts.sum()),
        }

    def _found(self, probe: Probe, box: Interval) -> Tensor:
        """The largest change met, up or down, ``(N,)``."""
        inside = probe.inside
        drawn = start_points(probe, box, num_points=self.num_samples, seed=self.seed)
        nominal = self.target(probe.logits, inside.y).detach()
        found = torch.zeros_like(nominal)
        for start in (inside.values.detach(), *drawn):
            for sign in (1.0, -1.0):
                for value in self._walk(inside, box, start, sign):
                    found = torch.maximum(found, (value - nominal).abs())
        return found.double()

    def _walk(self, inside: Inside, box: Interval, start: Tensor, sign: float) -> list[Tensor]:
        """The values on the way uphill (or down): first to an end of the box, then shorter."""
        values, point = [], start
        for step in range(self.num_steps + 1):
            at = inside.at(point)
            values.append(self.target(at.logits, inside.y).detach())
            share = STEP_SIZE * (1 - step / (self.num_steps + 1)) if step else 1.0
            stride = sign * share * (box.upper - box.lower)
            slope = at.gradient(self.target).detach().sign()
            point = torch.addcmul(point, stride, slope).clamp(box.lower, box.upper)
        return values
