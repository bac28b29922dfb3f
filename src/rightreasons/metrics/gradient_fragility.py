"""How much the gradient inside the mask can change when masked features move a little."""

from __future__ import annotations

import torch
from torch import Tensor

from rightreasons.attacks import GradientSize, climbed
from rightreasons.metrics.box_metric import BoxMetric
from rightreasons.metrics.metric import Rows
from rightreasons.probe import Probe
from rightreasons.setting import checked_flag
from rightreasons.start_points import start_points
from rightreasons.target import Target
from rightreasons.types import Interval

__all__ = ["GradientFragility"]

STEP_SIZE = 0.25


class GradientFragility(BoxMetric):
    r"""The width of the masked gradient over a box, proved from above and found from below.

    With :math:`l \le \nabla_x t(x') \le u` for all :math:`|x' - x| \le \epsilon m` by interval
    arithmetic, and the box cut to the data's valid range:

    ======================== ==============================================================
    ``gradient_fragility``   mean over samples of :math:`\sum_d m_d (u_d - l_d) / \sum_d m_d`,
                             as the paper's text has it
    ``max``                  the largest :math:`m_d (u_d - l_d)` over samples and features, as
                             the paper's code has it
    ``core``, ``core_max``   the same with :math:`1 - m`, for box and features
    ``ratio``                ``gradient_fragility`` / ``core``
    ``attack``, ``attack_max``  the same as the first two with the widths that a search found: never
                             more than was proved; the gap is what is not known
    ``n``                    samples that count: those with a mask
    ======================== ==============================================================

    Unit: target per input unit. Bounds get looser with depth, so that values of nets of different
    depth cannot be compared; those of ``attack`` can. A width that is not finite is shown as such.

    Differs from the paper: one name for each of its two definitions.

    Args:
        epsilon: 0.1 in the paper for pixels in [0, 1].
        target: See `BoxMetric`.
        num_samples: See `BoxMetric`.
        num_steps: See `BoxMetric`.
        core: Whether to bound the features outside the masks too, which costs most of the time.
        seed: See `BoxMetric`.

    References:
        ghitu2025model
    """

    name = "gradient_fragility"

    def __init__(
        self,
        *,
        epsilon: float = 0.1,
        target: Target | str = Target.LOSS,
        num_samples: int = 4,
        num_steps: int = 3,
        core: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            target=target,
            num_samples=num_samples,
            num_steps=num_steps,
            seed=seed,
        )
        self.core = checked_flag("core", core)

    def measure(self, probe: Probe) -> Rows:
        """See `Metric.measure`."""
        mask = probe.inside.mask
        found = self._found(probe)
        rows = {"counts": probe.mask.flatten(1).any(dim=1)}
        rows |= _columns("proved", mask, self._proved_width(probe))
        rows |= _columns("attack", mask, found.upper - found.lower)
        if self.core:
            batch = probe.batch.replace(mask=1 - probe.mask)
            others = Probe.at_test_time(
                probe.model, batch, needs_gradient="inside", create_graph=False
            )
            rows["has_core"] = (probe.mask < 1).flatten(1).any(dim=1)
            rows |= _columns("core", others.inside.mask, self._proved_width(others))
        return rows

    def summary(self, rows: Rows) -> dict[str, float]:
        """See `Metric.summary`."""
        rows = {name: column[rows["counts"]] for name, column in rows.items()}
        size = len(rows["counts"])
        if not size:
            return {"n": 0.0}
        result = {
            "": float(rows["proved"].mean()),
            "max": float(rows["proved_max"].max()),
            "attack": float(rows["attack"].mean()),
            "attack_max": float(rows["attack_max"].max()),
            "n": float(size),
        }
        if self.core:
            core = rows["core"][rows["has_core"]].mean()
            result |= {"core": float(core), "core_max": float(rows["core_max"].max())}
            result["ratio"] = float(rows["proved"].mean() / core)
        return result

    def _proved_width(self, probe: Probe) -> Tensor:
        with torch.no_grad():
            _, gradient = probe.inside.gradient_box(self.box(probe.inside), self.target)
        return (2 * gradient.radius).expand_as(gradient.center)

    def _found(self, probe: Probe) -> Interval:
        """The smallest and largest gradient met, ``(N, M)``."""
        inside, target = probe.inside, self.target
        box = self.box(inside)
        nominal = inside.gradient(target).detach()
        if not nominal.shape[1]:  # nobody in the batch has a mask
            return Interval(nominal, nominal)
        rising = nominal > 0
        ends = [
            torch.where(rising, box.upper, box.lower),
            torch.where(rising, box.lower, box.upper),
        ]
        drawn = start_points(probe, box, num_points=self.num_samples, seed=self.seed)
        size = GradientSize(inside.mask, "squared_l2", reference=nominal)
        lowest, highest, start, largest = nominal, nominal, inside.values, size(nominal)
        for point in (*ends, *drawn):
            gradient = inside.at(point).gradient(target).detach()
            lowest, highest = torch.minimum(lowest, gradient), torch.maximum(highest, gradient)
            sizes = size(gradient)
            start = torch.where((sizes > largest)[:, None], point, start)
            largest = torch.maximum(largest, sizes)
        if self.num_steps:
            best = climbed(
                inside,
                box,
                size,
                start,
                target=target,
                num_steps=self.num_steps,
                step_size=STEP_SIZE,
            )
            gradient = inside.at(best).gradient(target).detach()
            lowest, highest = torch.minimum(lowest, gradient), torch.maximum(highest, gradient)
        return Interval(lowest, highest)


def _columns(name: str, mask: Tensor, width: Tensor) -> Rows:
    """A sample's mean and largest width, as the mask weighs them; 0 where it is empty."""
    weighed = torch.where(mask == 0, 0.0, mask * width.detach()).double()
    total = mask.double().sum(dim=1)
    largest = torch.cat([weighed, weighed.new_zeros(len(weighed), 1)], dim=1).amax(dim=1)
    return {name: weighed.sum(dim=1) / torch.where(total == 0, 1.0, total), f"{name}_max": largest}
