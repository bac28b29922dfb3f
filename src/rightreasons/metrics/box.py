"""Proved bounds beside attacks: change of the output, and width of the masked gradient."""

from __future__ import annotations

import copy
import math
from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.attacks import GradientSize, climb
from rightreasons.bounds import refuse_jumps
from rightreasons.core.checks import check_flag, check_integer, positive_float
from rightreasons.core.memory import Work
from rightreasons.core.model_modes import innermost
from rightreasons.core.rng import sample_noise
from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import CertificateError, InvalidBatchError
from rightreasons.metrics.metric import Metric, Rows, refuse_without_masks
from rightreasons.probe.masked import MaskedFeatures
from rightreasons.probe.probe import Need, Probe
from rightreasons.types import Interval, Target

__all__ = ["BoxMetric", "CertifiedChange", "GradientFragility", "draw_start_points"]


STEP_SIZE = 0.25
"""First step of a search, as a fraction of the box's width."""
ROUNDING = 1e-3
"""Relative error of bounds in single precision that are rounded to nearest."""


class BoxMetric(Metric):
    r"""A metric over the box :math:`|x' - x| \le \epsilon m`, within the data's valid range.

    The result of its search depends on the seed and the sample, never on the batch. Bounds are
    those of single precision, rounded to nearest; `certify` rounds outward.

    Args:
        epsilon: Half the box's width, in input units.
        target: What is differentiated.
        num_samples: Number of points drawn for the search.
        num_steps: Number of steps uphill from the best of them.
        seed: Random seed for the draws.
    """

    higher_is_better = False
    needs_gradient: ClassVar[Need] = "inside"
    work: ClassVar[Work | None] = "bounds"

    def __init__(
        self,
        *,
        epsilon: float = 0.1,
        target: Target | str = Target.LOGIT,
        num_samples: int = 1,
        num_steps: int = 5,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.epsilon = positive_float("epsilon", epsilon)
        self.target = Target(target)
        self.num_samples = check_integer("num_samples", num_samples, low=0)
        self.num_steps = check_integer("num_steps", num_steps, low=0)
        self.seed = check_integer("seed", seed, low=0)
        self._valid_range: tuple[float, float] | None = None

    def prepare(self, data: Dataset) -> None:
        """Take the valid range from the card, if it states one; refuse data without masks."""
        refuse_without_masks(self, data)
        no_limit = (-math.inf, math.inf)
        self._valid_range = data.card.valid_range if data.card.states_range else no_limit

    def box(self, masked: MaskedFeatures) -> Interval:
        """Where the masked features may move, ``(N, M)``."""
        if self._valid_range is None:
            raise InvalidBatchError(
                f"Expected {type(self).__name__}.prepare(data) before the first batch, since the "
                "data say which values are valid. evaluate() does it."
            )
        return masked.box(self.epsilon, self._valid_range)

    def _refuse_less_than_found(
        self, what: str, proved: Tensor, found: Tensor, *, size: Tensor, probe: Probe
    ) -> None:
        """Raise if an attack found more than was proved, by more than rounding explains.

        In single precision a sure prediction is rounded to 1, by more than its gradient may
        measure. So samples beyond the bound are measured again in double precision.

        Args:
            what: What is bounded.
            proved: The bounds, ``(N,)``.
            found: What an attack found, ``(N,)``.
            size: Magnitude of the numbers whose rounding counts, ``(N,)``.
            probe: The samples.
        """
        beyond = found > proved + ROUNDING * (proved.abs() + size + 1e-6)
        if bool(beyond.any()) and probe.features.dtype != torch.float64:
            double_model = copy.deepcopy(innermost(probe.model)).double()
            batch = probe.batch[beyond].to(torch.float64)
            settings: dict[str, Any] = {"needs_gradient": "inside", "create_graph": False}
            self.measure(Probe.at_test_time(double_model, batch, **settings))
        elif bool(beyond.any()):
            first = int(beyond.nonzero()[0])
            raise CertificateError(
                f"Expected an attack to find no larger {what} than was proved, but `{self.name}` "
                f"found {float(found[first]):.6g} where {float(proved[first]):.6g} was proved. The "
                "rule of a layer is wrong: if it is your own, check it."
            )


class CertifiedChange(BoxMetric):
    r"""The most a target can change inside the box, from bounds of its gradient.

    By the mean value theorem, on the way from :math:`x` to any :math:`x'` of the box,

    .. math:: |t(x') - t(x)| \le \sum_d r_d \, \max(|l_d|, |u_d|)
        \quad\text{with}\quad l \le \nabla_x t \le u \;\;\text{in the box}

    where :math:`r_d` is the distance that feature d can move: :math:`\epsilon m_d`, or less where
    the valid range ends earlier on both sides. Layers that jump are refused.

    ======================== ==============================================================
    ``certified_change``     mean over samples with a mask
    ``max``                  the largest
    ``attack``, ``attack_max``  the change that signed steps found, at most the proved one
    ``n``                    samples that count: those with a mask
    ======================== ==============================================================

    Unit: that of the target. A change that is not finite is shown as such.

    Differs from the paper: its Proposition 1 bounds the change by a term of second order. It
    concludes from a bounded gradient to a bounded Hessian, which does not follow. The bound here
    needs the bounded gradient alone and is tighter.

    Args:
        epsilon: Half the box's width, in input units.
        target: What is differentiated.
        num_samples: Number of points drawn for the search.
        num_steps: Number of steps of the search.
        seed: Random seed for the draws.

    References:
        ghitu2025model
    """

    name = "certified_change"

    @override
    def measure(self, probe: Probe) -> Rows:
        masked = probe.masked
        box = self.box(masked)
        refuse_jumps(probe.model, probe.features)
        values = masked.values.detach()
        reach = torch.maximum(box.upper - values, values - box.lower)
        with torch.no_grad():
            _, gradient = masked.gradient_box(box, self.target)
        steepest = gradient.center.abs() + gradient.radius
        moved = torch.where(reach == 0, 0.0, reach * steepest).double()
        proved, attack = moved.sum(dim=1), self._largest_change(probe, box)
        nominal = self.target(probe.logits, masked.y).detach().abs().double()
        self._refuse_less_than_found("change", proved, attack, size=nominal, probe=probe)
        return {
            "counts": probe.mask.flatten(1).any(dim=1),
            "proved": proved,
            "attack": attack,
        }

    @override
    def summary(self, rows: Rows) -> dict[str, float]:
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

    def _largest_change(self, probe: Probe, box: Interval) -> Tensor:
        """The largest change that the search meets, up or down, ``(N,)``."""
        masked = probe.masked
        starts = draw_start_points(probe, box, num_points=self.num_samples, seed=self.seed)
        nominal = self.target(probe.logits, masked.y).detach()
        largest = torch.zeros_like(nominal)
        for start in (masked.values.detach(), *starts):
            for sign in (1.0, -1.0):
                for value in self._values_on_path(masked, box, start, sign):
                    largest = torch.maximum(largest, (value - nominal).abs())
        return largest.double()

    def _values_on_path(
        self, masked: MaskedFeatures, box: Interval, start: Tensor, sign: float
    ) -> list[Tensor]:
        """The values on the way up (or down): one step to an end of the box, then shorter ones."""
        values, point = [], start
        for step in range(self.num_steps + 1):
            at = masked.at(point)
            values.append(self.target(at.logits, masked.y).detach())
            fraction = STEP_SIZE * (1 - step / (self.num_steps + 1)) if step else 1.0
            stride = sign * fraction * (box.upper - box.lower)
            slope = at.gradient(self.target).detach().sign()
            point = torch.addcmul(point, stride, slope).clamp(box.lower, box.upper)
        return values


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
    ``attack``, ``attack_max``  the first two with the widths that a search found, which are at
                             most the proved ones; the truth lies between
    ``n``                    samples that count: those with a mask
    ======================== ==============================================================

    Unit: target per input unit. Bounds get looser with depth, so that values of nets of different
    depth cannot be compared, unlike those of ``attack``. A width that is not finite is given as
    such.

    Differs from the paper: one name for each of its two definitions. The box is cut to the valid
    range of the data: a black pixel moves up only. The paper's box is not cut, so that its widths
    are larger for the same net.

    Args:
        epsilon: Half the box's width; in the public code 0.1 on Decoy MNIST, 0.01 on Decoy DERM.
        target: What is differentiated.
        num_samples: Number of points drawn for the search.
        num_steps: Number of steps of the search.
        core: Whether to bound the features outside the masks too, which costs most of the time.
        seed: Random seed for the draws.

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
        self.core = check_flag("core", core)

    @override
    def measure(self, probe: Probe) -> Rows:
        mask = probe.masked.mask
        searched = self._search(probe)
        rows = {"counts": probe.mask.flatten(1).any(dim=1)}
        rows |= _columns("proved", mask, self._proved_width(probe))
        rows |= _columns("attack", mask, searched.upper - searched.lower)
        widest = torch.maximum(searched.lower.abs(), searched.upper.abs())
        size = _columns("size", mask, widest)["size_max"]
        for name in ("", "_max"):
            found, proved = rows[f"attack{name}"], rows[f"proved{name}"]
            what = "width of the gradient"
            self._refuse_less_than_found(what, proved, found, size=size, probe=probe)
        if self.core:
            batch = probe.batch.replace(mask=1 - probe.mask)
            core = Probe.at_test_time(
                probe.model, batch, needs_gradient="inside", create_graph=False
            )
            rows["has_core"] = (probe.mask < 1).flatten(1).any(dim=1)
            rows |= _columns("core", core.masked.mask, self._proved_width(core))
        return rows

    @override
    def summary(self, rows: Rows) -> dict[str, float]:
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
            _, gradient = probe.masked.gradient_box(self.box(probe.masked), self.target)
        return (2 * gradient.radius).expand_as(gradient.center)

    def _search(self, probe: Probe) -> Interval:
        """The smallest and largest gradient that the search meets, ``(N, M)``."""
        masked, target = probe.masked, self.target
        box = self.box(masked)
        nominal = masked.gradient(target).detach()
        if not nominal.shape[1]:  # no sample of the batch has a mask
            return Interval(nominal, nominal)
        rising = nominal > 0
        ends = [
            torch.where(rising, box.upper, box.lower),
            torch.where(rising, box.lower, box.upper),
        ]
        drawn = draw_start_points(probe, box, num_points=self.num_samples, seed=self.seed)
        size = GradientSize(masked.mask, "squared_l2", reference=nominal)
        lowest, highest, start, largest = nominal, nominal, masked.values, size(nominal)
        for point in (*ends, *drawn):
            gradient = masked.at(point).gradient(target).detach()
            lowest, highest = torch.minimum(lowest, gradient), torch.maximum(highest, gradient)
            sizes = size(gradient)
            start = torch.where((sizes > largest)[:, None], point, start)
            largest = torch.maximum(largest, sizes)
        if self.num_steps:
            best = climb(
                masked,
                box,
                size,
                start,
                target=target,
                num_steps=self.num_steps,
                step_size=STEP_SIZE,
            )
            gradient = masked.at(best).gradient(target).detach()
            lowest, highest = torch.minimum(lowest, gradient), torch.maximum(highest, gradient)
        return Interval(lowest, highest)


def draw_start_points(probe: Probe, interval: Interval, *, num_points: int, seed: int) -> Tensor:
    """Points drawn uniformly from a box inside the masks, ``(num_points, N, M)``.

    They depend on the seed and the sample, never on the batch.

    Args:
        probe: A pass over samples with an ``index``.
        interval: A box of `MaskedFeatures`, ``(N, M)``.
        num_points: Number of points for each sample.
        seed: Random seed for the draws.
    """
    index, shape = probe.batch.index, probe.features.shape[1:]
    if index is None:
        raise InvalidBatchError(
            "Expected batches with an `index`, so that what is drawn for a sample does not depend "
            "on its batch, but got one without. evaluate() takes care of it."
        )
    lower, upper = interval
    drawn = sample_noise(index, (shape.numel(),), num_draws=num_points, seed=seed)
    noise = drawn.to(lower)[..., probe.masked.columns]
    return torch.lerp(lower, upper, noise).clamp(lower, upper)


def _columns(name: str, mask: Tensor, width: Tensor) -> Rows:
    """A sample's mean and largest width, weighted by the mask; 0 where it is empty."""
    weighted = torch.where(mask == 0, 0.0, mask * width.detach()).double()
    total = mask.double().sum(dim=1)
    largest = torch.cat([weighted, weighted.new_zeros(len(weighted), 1)], dim=1).amax(dim=1)
    return {name: weighted.sum(dim=1) / torch.where(total == 0, 1.0, total), f"{name}_max": largest}
