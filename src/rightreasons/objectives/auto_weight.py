"""Weights that choose themselves: by the size of gradients, or by what the model still reads."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional

from rightreasons.core.checks import check_fraction, check_integer, positive_float
from rightreasons.core.model_modes import innermost, statistics_of, with_statistics
from rightreasons.core.norms import gradient_norm
from rightreasons.datasets.replacement import Replacement
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives.memory import replace_graphs
from rightreasons.probe.embeddings import call_model
from rightreasons.types import Batch

if TYPE_CHECKING:
    from rightreasons.objectives.objective import Objective

__all__ = [
    "AutoWeight",
    "ControlledWeight",
    "Growing",
    "OwnWeight",
    "Weight",
    "Widening",
    "cap_penalties",
    "control_weights",
    "make_weight",
    "name_weight",
    "scale_weight",
    "settings_of_pass",
]

logger = logging.getLogger("rightreasons")

START = 1000.0
"""The weight with which a controlled penalty starts; its cap is lower in the first steps."""
SMOOTHING = 0.2
"""The share of a new measurement in the moving means of a controlled weight."""
LEAST = 0.02
"""The smallest share of the entropy that counts as left to learn, in a cap."""
MEMORY = 0.9
"""What remains after a step of the task's gradient that a cap remembers."""

FOLLOWED = 4
"""Observations over which a weight follows a penalty whose box widens."""


class Growing:
    """A mix-in for terms that grow to their full size during training."""

    grown: float = 1.0
    """The factor by which the losses of the last pass were multiplied; 1 at full size."""


class Widening:
    """A mix-in for terms over a box that widens during training."""

    is_grown: bool = True
    """Whether the box of the last pass had its full width."""
    is_due: bool = True
    """Whether an automatic weight takes the last pass into account; few count while it widens."""


class AutoWeight(nn.Module):
    r"""The weight at which a penalty's gradient is as large as that of the task.

    .. math:: w = r \cdot \exp \frac1T \sum_{t=1}^{T}
              \log \frac{\lVert \nabla_\theta \ell_t \rVert}{\lVert \nabla_\theta P_t \rVert}

    over the first ``steps`` training steps, then fixed. During this warm-up the weight is the
    current estimate, so that every step has the penalty. Steps in which the penalty has no gradient
    (no mask in the batch) do not count. A penalty that grows to its weight (`Growing`) is measured
    at its full size. A penalty over a box that widens (`Widening`) grows by orders of magnitude.
    Its weight follows a moving mean of the logarithms until the box has its width, and the warm-up
    begins there. The state is part of the objective's ``state_dict``.

    Args:
        ratio: Size of the penalty's gradient relative to the task's; 1 is as large.
        steps: Length of the warm-up.
    """

    log_sum: Tensor
    count: Tensor

    def __init__(self, *, ratio: float = 1.0, steps: int = 20) -> None:
        super().__init__()
        self.ratio = ratio
        self.steps = steps
        self.register_buffer("log_sum", torch.zeros((), dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    @property
    def settled(self) -> bool:
        """Whether the warm-up is over."""
        return int(self.count) >= self.steps

    @property
    def value(self) -> float:
        """The current weight; 0 before the first step."""
        count = int(self.count)
        return self.ratio * math.exp(float(self.log_sum) / count) if count else 0.0

    def observe(
        self,
        task: Tensor,
        penalty: Tensor,
        parameters: Sequence[Tensor],
        num_samples: int,
        *,
        grown: float = 1.0,
        settles: bool = True,
    ) -> None:
        """Take one step's ratio into account.

        Args:
            task: The task's mean loss over this process's samples.
            penalty: The penalty's mean over the same samples.
            parameters: Tensors whose gradients are compared.
            num_samples: Number of samples in this process.
            grown: The penalty's factor in this step; it is measured as if that were 1.
            settles: Whether the step counts for the warm-up; otherwise the estimate moves along.
        """
        task_norm = gradient_norm(task, parameters, num_samples)
        penalty_norm = gradient_norm(penalty, parameters, num_samples)
        if 0 < task_norm < math.inf and 0 < penalty_norm < math.inf:
            found = math.log(task_norm) - math.log(penalty_norm) + math.log(grown)
            if not settles and int(self.count):  # one observation, a mean that moves
                self.log_sum += (found - self.log_sum) / FOLLOWED
                return
            self.log_sum += found
            self.count += 1
            if self.settled:
                logger.info("An automatic weight is set to %.4g.", self.value)


def settings_of_pass(term: nn.Module, weight: AutoWeight) -> dict[str, Any] | None:
    """How a weight observes the term's last pass; None if the pass does not count."""
    if isinstance(term, Growing):
        return {"grown": term.grown}
    if not isinstance(term, Widening):
        return {}
    return None if weight.value and not term.is_due else {"settles": term.is_grown}


class ControlledWeight(nn.Module):
    r"""A weight that rises while the model reads the masked part, and falls when it does not.

    It holds a constraint: exchanging the masked part may cost at most a share
    :math:`\tau` of what the model has learned,

    .. math:: c = \frac{\ell(x') - \ell(x)}{\log K - \ell(x)} \le \tau, \qquad
              \log w \leftarrow \log w + \eta \, \mathrm{clip}\left(c / \tau - 1, -1, 1\right)

    with :math:`\ell` the mean cross-entropy of the batch and :math:`x'` the samples
    with exchanged masked parts (`Replacement`), both moving means over batches. The cost is a
    share, so a model cannot lower it by shrinking its logits. Where nothing has been learned, the
    cost is 0 and the weight falls. The weight is the exponential of a dual variable and has bounds.

    A cap holds the penalty's gradient below a share of the task's, so that no weight switches
    learning off:

    .. math:: w \le \gamma \, \frac{G}{\lVert \nabla_\theta P \rVert} \,
              \frac{\log K}{\ell(x)}, \qquad
              G \leftarrow \max(\lVert \nabla_\theta \ell \rVert, 0.9 \, G)

    The more the model has learned, the higher is the cap, up to 50 times. The weight starts high,
    hence at its cap: a net that has learned a shortcut is sure, its loss has no gradient, and a
    penalty comes too late. All of it is part of ``state_dict()``.

    A measurement is one pass without gradients over twice the batch, in every ``every``-th step.
    The cap takes one backward pass of the task more.

    Args:
        limit: :math:`\tau`.
        rate: :math:`\eta`, for one step.
        every: Steps between two measurements; each counts for all of them.
        start: The weight of the first step.
        low: Smallest weight.
        high: Largest weight.
        cap: :math:`\gamma`.
    """

    log_weight: Tensor
    steps: Tensor
    cost: Tensor
    ceiling: Tensor
    learned: Tensor
    pull: Tensor
    means: Tensor

    def __init__(
        self,
        *,
        limit: float = 0.02,
        rate: float = 0.1,
        every: int = 4,
        start: float = START,
        low: float = 1e-3,
        high: float = 1e5,
        cap: float = 0.4,
    ) -> None:
        super().__init__()
        self.limit = check_fraction("limit", limit)
        self.rate = positive_float("rate", rate)
        self.every = check_integer("every", every)
        self.start = positive_float("start", start)
        self.low, self.high = positive_float("low", low), positive_float("high", high)
        self.cap = positive_float("cap", cap)
        self.register_buffer("log_weight", torch.tensor(math.log(start), dtype=torch.float64))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("cost", torch.zeros((), dtype=torch.float64))
        self.register_buffer("learned", torch.zeros((), dtype=torch.float64))
        self.register_buffer("means", torch.zeros(2, dtype=torch.float64))
        self.register_buffer("pull", torch.zeros((), dtype=torch.float64))
        self.register_buffer("ceiling", torch.tensor(math.inf, dtype=torch.float64))

    @property
    def value(self) -> float:
        """The current weight."""
        return min(math.exp(float(self.log_weight)), float(self.ceiling))

    @property
    def is_due(self) -> bool:
        """Whether this step measures."""
        return int(self.steps) % self.every == 0

    def observe(self, plain: Tensor, swapped: Tensor, num_classes: int) -> None:
        """Take a measurement into account.

        Args:
            plain: Cross-entropy of each sample, ``(N,)``.
            swapped: The same with exchanged masked parts.
            num_classes: K.
        """
        sums = torch.stack(
            [plain.double().sum(), swapped.double().sum(), plain.new_tensor(len(plain)).double()]
        )
        if distributed.is_available() and distributed.is_initialized():
            distributed.all_reduce(sums)
        before, after = float(sums[0] / sums[2]), float(sums[1] / sums[2])
        found = torch.tensor([after - before, math.log(num_classes) - before])
        rate = max(SMOOTHING, 1 / (1 + int(self.steps) // self.every))
        self.means += rate * (found.to(self.means) - self.means)
        extra, learned = self.means.tolist()
        # Below 2 % of the entropy the share is noise: nothing is learned yet.
        reads = extra / learned if learned > 0.02 * math.log(num_classes) else 0.0
        self.cost.fill_(reads)
        self.learned.fill_(min(max(learned / math.log(num_classes), 0.0), 1.0))
        excess = min(max(reads / max(self.limit, 1e-6) - 1, -1.0), 1.0)
        moved = float(self.log_weight) + self.every * self.rate * excess
        self.log_weight.fill_(min(max(moved, math.log(self.low)), math.log(self.high)))

    def hold_below(self, task_norm: float, penalty_norm: float) -> None:
        """Cap the weight by the gradients of a step.

        Args:
            task_norm: Norm of the gradient of the weighted task.
            penalty_norm: Norm of the penalty's gradient at weight 1.
        """
        if math.isfinite(task_norm):
            self.pull.fill_(max(task_norm, MEMORY * float(self.pull)))
        left = max(1.0 - float(self.learned), LEAST)
        allowed = self.cap * float(self.pull) / left
        self.ceiling.fill_(allowed / penalty_norm if penalty_norm > 0 else math.inf)


def control_weights(
    controllers: Sequence[ControlledWeight],
    model: nn.Module,
    batch: Batch,
    replacement: Replacement,
) -> None:
    """Let controlled weights see what exchanging the masked part costs, where it is due.

    Args:
        controllers: The weights of a training step.
        model: The model, in the mode of training; running statistics lag behind one that learns.
        batch: The samples of the step.
        replacement: Exchanges the masked parts.
    """
    due = [one for one in controllers if one.is_due]
    if due:
        core = innermost(model)
        with torch.no_grad(), with_statistics(statistics_of(core)):
            both = batch.repeat(2)
            x = torch.cat([batch.x, replacement(batch)])
            logits = call_model(core, x, both.inputs)
        losses = functional.cross_entropy(logits, batch.y.repeat(2), reduction="none")
        plain, swapped = losses.chunk(2)
        for one in due:
            one.observe(plain, swapped, num_classes=logits.shape[1])
    for one in controllers:
        one.steps += 1


def cap_penalties(
    objective: Objective,
    parts: Mapping[str, Tensor],
    stops: Sequence[Tensor] | None,
    parameters: Sequence[Tensor],
    num_samples: int,
) -> dict[str, Tensor]:
    """Hold the gradients of controlled penalties below a share of the task's.

    Args:
        objective: The task and its penalties.
        parts: Each term's mean, with its graph.
        stops: Leaves at which ``backward`` stops; None is every leaf.
        parameters: Tensors whose gradients are compared.
        num_samples: Number of samples in this process.

    Returns:
        The same parts. Where there are stops, they hold gradients in place of graphs, so that
        nothing is differentiated twice.
    """
    name = objective.task
    # Under autocast a loss is scaled before it is differentiated: keep its graph.
    if stops is not None and not torch.is_autocast_enabled(parts[name].device.type):
        parts = replace_graphs(parts, stops)
    task_norm = gradient_norm(parts[name], parameters, num_samples) * objective.weights[name]
    for other, weight in objective.auto_weights.items():
        if isinstance(weight, ControlledWeight):
            weight.hold_below(task_norm, gradient_norm(parts[other], parameters, num_samples))
    return dict(parts)


Weight = float | Literal["auto", "controlled"]
"""What a term is multiplied with: a number, an `AutoWeight` or a `ControlledWeight`."""
OwnWeight = AutoWeight | ControlledWeight


def make_weight(weight: Weight | OwnWeight) -> float | OwnWeight:
    """The weight that a number or name stands for."""
    if weight == "auto":
        return AutoWeight()
    if weight == "controlled":
        return ControlledWeight()
    return weight if isinstance(weight, OwnWeight) else check_weight(weight)


def name_weight(weight: float | OwnWeight) -> Weight:
    """The number or name that gives a weight."""
    if isinstance(weight, AutoWeight):
        return "auto"
    return "controlled" if isinstance(weight, ControlledWeight) else weight


def scale_weight(old: Weight | OwnWeight, weight: Weight) -> Weight | OwnWeight:
    """The weight of a term that had the weight ``old`` and is multiplied with ``weight``."""
    if weight in ("auto", "controlled"):
        if isinstance(old, OwnWeight):
            return old
        factor = check_weight(old)
        if weight == "auto":
            return AutoWeight(ratio=factor)
        return ControlledWeight(start=START * factor)
    factor = check_weight(weight)
    if isinstance(old, AutoWeight):
        return AutoWeight(ratio=old.ratio * factor, steps=old.steps)
    if isinstance(old, ControlledWeight):
        settings = {
            name: getattr(old, name) for name in ("limit", "rate", "every", "low", "high", "cap")
        }
        return ControlledWeight(start=old.start * factor, **settings)
    return float(old) * factor


def check_weight(weight: object) -> float:
    """Give the weight as a number, or raise if it is not a finite one of at least 0."""
    if (
        isinstance(weight, bool)
        or not isinstance(weight, int | float)
        or not 0 <= weight < float("inf")
    ):
        raise InvalidSettingError(
            'Expected `weight` to be a finite number of at least 0, "auto" or "controlled", but '
            f"got {weight!r}."
        )
    return float(weight)
