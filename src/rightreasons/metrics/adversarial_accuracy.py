"""Accuracy at the worst input that an attack finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

from rightreasons.attacks import FGSM, PGD, BallNorm, OutputAttack, apgd_pair, strongest_of
from rightreasons.attacks.ball import NORMS
from rightreasons.core.checks import (
    check_choice,
    check_floats,
    check_integer,
    check_within,
    positive_float,
)
from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidSettingError
from rightreasons.metrics.metric import Metric, Rows, check_prepared
from rightreasons.probe.probe import Probe

__all__ = ["AdversarialAccuracy"]

ATTACKS: tuple[Literal["pgd", "fgsm", "apgd"], ...] = ("pgd", "fgsm", "apgd")


class AdversarialAccuracy(Metric):
    r"""The fraction of samples that are predicted right at every input an attack tries.

    ================================ ====================================================
    ``adversarial_accuracy``         fraction that is right under every attack measured here
    ``NORM/EPSILON``                 by norm and radius, to four digits
    ``NORM/EPSILON/STEP``            the same, where a step size was given
    ``clean``                        without an attack
    ``n``                            samples
    ================================ ====================================================

    An attack finds some of the inputs that fool a model, so the values are upper bounds of the
    accuracy in the ball. An input that fools the model in a ball lies in every larger one too, and
    counts there. Inputs stay in the data's valid range. Draws depend on the seed and the sample,
    never on the batch.

    Args:
        attack: ``"pgd"``, ``"fgsm"``, or ``"apgd"``, which is APGD-CE and targeted APGD-DLR.
        norm: ``"linf"``, ``"l2"``, or both in a list.
        epsilons: A radius in input units, or several in a list; 0.3 in the density paper's Table 1.
        num_steps: Number of steps of each search; 20 in the density paper. FGSM has one.
        step_size: Length of a step of PGD, in input units, or several in a list. None is
            ``2.5 * epsilon / num_steps``. With the density paper's 0.01, 20 steps reach points at
            most 0.2 from their start.
        num_restarts: Number of searches of PGD and APGD for each sample that is not fooled.
        seed: Random seed for the draws.

    References:
        goodfellow2015explaining, madry2018towards, croce2020reliable
    """

    name = "adversarial_accuracy"
    higher_is_better = True

    def __init__(
        self,
        *,
        attack: Literal["pgd", "fgsm", "apgd"] = "pgd",
        norm: BallNorm | Sequence[BallNorm] = "linf",
        epsilons: float | Sequence[float] = (0.1, 0.2, 0.3),
        num_steps: int = 20,
        step_size: float | None | Sequence[float | None] = None,
        num_restarts: int = 1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.attack = check_choice("attack", attack, ATTACKS)
        self.norm = norm
        radii = check_floats("epsilons", epsilons)
        self.epsilons = sorted({positive_float("epsilons", epsilon) for epsilon in radii})
        self.num_steps = check_integer("num_steps", num_steps)
        self.step_size = step_size
        self.num_restarts = check_integer("num_restarts", num_restarts)
        self.seed = check_integer("seed", seed, low=0)
        several = isinstance(norm, Sequence) and not isinstance(norm, str)
        self._norms = [check_choice("norm", one, NORMS) for one in (norm if several else [norm])]
        self._steps = list(step_size) if isinstance(step_size, Sequence) else [step_size]
        if not self._norms or not self._steps:
            raise InvalidSettingError(
                "Expected at least one `norm` and one `step_size`, but got an empty list."
            )
        if attack != "pgd" and self._steps != [None]:
            raise InvalidSettingError(
                f"Expected `step_size` to be None with attack={attack!r}, which has none, but got "
                f"{step_size!r}. Use attack='pgd'."
            )
        self._valid_range: tuple[float, float] | None = None
        for column in self._columns():
            self._attacks(*column)  # checks the remaining settings

    def prepare(self, data: Dataset) -> None:
        """Take the valid range from the card."""
        self._valid_range = data.card.valid_range

    @override
    def measure(self, probe: Probe) -> Rows:
        valid_range, index = check_prepared(self, self._valid_range, probe.batch.index)
        check_within(probe.features.detach(), valid_range)
        rows: Rows = {"clean": probe.logits.argmax(dim=1) == probe.batch.y}
        for norm, step in self._runs():
            robust = rows["clean"]
            for epsilon in self.epsilons:
                robust = self._attack(probe, index, robust, (norm, step, epsilon))
                rows[_key(norm, step, epsilon)] = robust
        return rows

    @override
    def summary(self, rows: Rows) -> dict[str, float]:
        keys = [_key(*column) for column in self._columns()]
        always_robust = torch.stack([rows[key] for key in keys]).all(dim=0)
        fractions = {key: _fraction(rows[key]) for key in keys}
        clean, size = _fraction(rows["clean"]), float(len(always_robust))
        return {"": _fraction(always_robust), **fractions, "clean": clean, "n": size}

    def _attack(
        self,
        probe: Probe,
        index: Tensor,
        robust: Tensor,
        column: tuple[BallNorm, float | None, float],
    ) -> Tensor:
        """Attack the samples that are still robust; those that remain so, ``(N,)``."""
        rows = robust.nonzero().flatten()
        if not len(rows):
            return robust
        attacks = self._attacks(*column, max_rows=probe.max_rows)
        x, y = probe.features.detach()[rows], probe.batch.y[rows]
        fooled = strongest_of(attacks, probe.model, x, y, index=index[rows]).fooled
        remaining = robust.clone()
        remaining[rows[fooled]] = False
        return remaining

    def _runs(self) -> list[tuple[BallNorm, float | None]]:
        return [(norm, step) for norm in self._norms for step in self._steps]

    def _columns(self) -> list[tuple[BallNorm, float | None, float]]:
        return [(norm, step, eps) for norm, step in self._runs() for eps in self.epsilons]

    def _attacks(
        self,
        norm: BallNorm,
        step: float | None,
        epsilon: float,
        *,
        max_rows: int | None = None,
    ) -> Sequence[OutputAttack]:
        valid_range = self._valid_range or (0.0, 1.0)
        if self.attack == "fgsm":
            return [FGSM(epsilon=epsilon, norm=norm, valid_range=valid_range, max_rows=max_rows)]
        if self.attack == "pgd":
            pgd = PGD(
                epsilon=epsilon,
                norm=norm,
                num_steps=self.num_steps,
                step_size=step,
                num_restarts=self.num_restarts,
                valid_range=valid_range,
                seed=self.seed,
                max_rows=max_rows,
            )
            return [pgd]
        return apgd_pair(
            epsilon=epsilon,
            norm=norm,
            num_steps=self.num_steps,
            num_restarts=self.num_restarts,
            valid_range=valid_range,
            seed=self.seed,
            max_rows=max_rows,
        )


def _key(norm: str, step: float | None, epsilon: float) -> str:
    return f"{norm}/{epsilon:.4g}" if step is None else f"{norm}/{epsilon:.4g}/{step:.4g}"


def _fraction(column: Tensor) -> float:
    return float(column.double().mean())
