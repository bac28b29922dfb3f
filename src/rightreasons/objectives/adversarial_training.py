"""Adversarial training: the task also at the worst input near each sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor, nn
from typing_extensions import override

from rightreasons.attacks import Ball, BallNorm, climb_slope
from rightreasons.attacks.output_attack import cross_entropy
from rightreasons.attacks.pgd import step_lengths
from rightreasons.core.checks import (
    check_flag,
    check_fraction,
    check_integer,
    positive_float,
)
from rightreasons.core.model_modes import innermost
from rightreasons.datasets.dataset import Dataset
from rightreasons.objectives.cross_entropy import CrossEntropy
from rightreasons.objectives.objective import Objective, Term
from rightreasons.objectives.recipe import recipe
from rightreasons.probe.embeddings import feature_model
from rightreasons.probe.probe import Probe

__all__ = ["AdversarialTraining", "at_fgsm", "at_pgd"]


class AdversarialTraining(Term):
    r"""The cross-entropy where an attack on the prediction ends.

    .. math:: -c_y \log p(y \mid x'), \qquad
        x' \approx \arg\max_{\lVert x' - x \rVert \le \epsilon} -\log p(y \mid x')

    The attack climbs the loss of the model as at test time, and its end is held constant. One step
    from the sample itself is FGSM, several from a drawn point are PGD. The pass at :math:`x'` is
    in train mode: BatchNorm uses the statistics of the attacked batch, and dropout draws. It does
    not update the running statistics, which stay those of the clean samples. Unit: nats.

    Differs from the papers: nothing known, except for the running statistics.

    Args:
        epsilon: The ball's radius in input units; see `Ball`.
        num_steps: Number of steps of the attack.
        step_size: Length of a step in input units; None is ``2.5 * epsilon / num_steps``.
        norm: The ball's norm, ``"linf"`` or another of `Ball`.
        random_start: Begin at a point drawn from the ball, or else at the sample.
        valid_range: Smallest and largest value of a feature. None takes the range of the data from
            `fit` or ``prepare``, and is no limit without them.
        class_weights: One factor for each class, as in `CrossEntropy`; None is 1 for all.

    References:
        goodfellow2015explaining, madry2018towards
    """

    is_task = True

    def __init__(
        self,
        *,
        epsilon: float = 0.1,
        num_steps: int = 5,
        step_size: float | None = None,
        norm: BallNorm = "linf",
        random_start: bool = True,
        valid_range: tuple[float, float] | None = None,
        class_weights: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.ball = Ball(epsilon=epsilon, norm=norm, valid_range=valid_range)
        self.num_steps = check_integer("num_steps", num_steps)
        self.step_size = None if step_size is None else positive_float("step_size", step_size)
        self.random_start = check_flag("random_start", random_start)
        self.valid_range = self.ball.valid_range
        self.task = CrossEntropy(class_weights=class_weights)

    @override
    def prepare(self, data: Dataset, *, num_passes: int) -> None:
        del num_passes
        valid_range = self.valid_range or data.card.feature_range
        self.ball = Ball(epsilon=self.ball.epsilon, norm=self.ball.norm, valid_range=valid_range)

    @override
    def forward(self, probe: Probe) -> Tensor:
        core = innermost(probe.model)
        net = feature_model(core, probe.batch)
        worst = self._worst(net, probe.features.detach(), probe.batch.y)
        with _keep_statistics(core):
            attacked = Probe(core, probe.batch, features=worst)
        losses: Tensor = self.task(attacked)
        return losses

    def _worst(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        point = self.ball.draw(x) if self.random_start else x
        for stride in step_lengths(self.ball.epsilon, self.num_steps, step_size=self.step_size):
            _, _, slope = climb_slope(model, point, y, cross_entropy)
            point = self.ball.project(point + stride * self.ball.direction(slope), x)
        return point


@recipe(CrossEntropy, AdversarialTraining, without=["label_smoothing"])
def at_pgd(
    clean: CrossEntropy, attacked: AdversarialTraining, *, clean_weight: float = 0.0
) -> Objective | Term:
    """Adversarial training by PGD: right where several steps up the loss end.

    Madry et al. train on attacked samples alone; ``clean_weight`` mixes clean samples in.

    Example:
        >>> at_pgd().weights
        {'adversarial_training': 1.0}
    """
    clean_weight = check_fraction("clean_weight", clean_weight, below_one=True)
    return clean_weight * clean + (1 - clean_weight) * attacked if clean_weight else attacked


def at_fgsm(
    *,
    epsilon: float = 0.1,
    clean_weight: float = 0.5,
    norm: BallNorm = "linf",
    valid_range: tuple[float, float] | None = None,
    weight_decay: float = 0.0,
    class_weights: Sequence[float] | None = None,
) -> Objective:
    """Adversarial training by FGSM: also right after one step up the loss.

    Goodfellow et al. give clean and attacked samples the same weight; ``clean_weight=0`` trains on
    attacked ones alone.

    Example:
        >>> at_fgsm().weights
        {'cross_entropy': 0.5, 'adversarial_training': 0.5}
    """
    return at_pgd(
        epsilon=epsilon,
        num_steps=1,
        step_size=epsilon,
        random_start=False,
        clean_weight=clean_weight,
        norm=norm,
        valid_range=valid_range,
        weight_decay=weight_decay,
        class_weights=class_weights,
    )


@contextmanager
def _keep_statistics(model: nn.Module) -> Iterator[None]:
    """Keep the running statistics of normalisation layers during a pass in train mode."""
    norms = [
        module
        for module in model.modules()
        if module.training and isinstance(module, nn.modules.batchnorm._NormBase)
    ]
    buffers = [(norm, dict(norm._buffers)) for norm in norms]
    # The pass updates copies: a graph may hold the buffers themselves.
    for norm, originals in buffers:
        norm._buffers.update({n: b.clone() for n, b in originals.items() if b is not None})
    try:
        yield
    finally:
        for norm, originals in buffers:
            norm._buffers.update(originals)
