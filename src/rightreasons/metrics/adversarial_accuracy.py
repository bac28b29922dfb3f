"""How often the model is right at the worst input that an attack finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from rightreasons.attacks import FGSM, PGD, BallNorm, OutputAttack, apgd_pair, strongest_of
from rightreasons.attacks.ball import NORMS
from rightreasons.core.checks import check_choice, check_floats, check_integer, positive_float
from rightreasons.datasets.dataset import Dataset
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.metrics.metric import Metric, Rows
from rightreasons.probe.probe import Probe

__all__ = ["AdversarialAccuracy"]

ATTACKS: tuple[Literal["pgd", "fgsm", "apgd"], ...] = ("pgd", "fgsm", "apgd")


class AdversarialAccuracy(Metric):
    r"""The share of samples that are predicted right wherever an attack takes them.

    ================================ ====================================================
    ``adversarial_accuracy``         share that stands every attack measured here
    ``NORM/EPSILON``                 by norm and radius, to four digits
    ``NORM/EPSILON/STEP``            the same, where a step size was given
    ``clean``                        without an attack
    ``n``                            samples
    ================================ ====================================================

    An attack finds some of the inputs that fool a model, so the values are upper bounds of the
    accuracy in the ball. What fools a sample in a ball is in every larger one too, and counts
    there. Inputs stay in the data's valid range. Draws depend on the seed and the sample, never on
    the batch.

    Args:
        attack: ``"pgd"``, ``"fgsm"``, or ``"apgd"``, which is APGD-CE and targeted APGD-DLR.
        norm: ``"linf"``, ``"l2"``, or both in a list.
        epsilons: A radius in input units, or several in a list; 0.3 in the density paper's Table 1.
        num_steps: Of each search; 20 in the density paper. FGSM has one.
        step_size: Of PGD, in input units, or several in a list: None is ``2.5 * epsilon /
            num_steps``. With the density paper's 0.01, 20 steps get 0.2 from where they start.
        num_restarts: How often PGD and APGD search each sample that stands.
        seed: Of the draws.

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
            self._attacks(*column)  # checks the rest

    def prepare(self, data: Dataset) -> None:
        """Take the valid range from the card."""
        self._valid_range = data.card.valid_range

    def measure(self, probe: Probe) -> Rows:
        """See `Metric.measure`."""
        index = probe.batch.index
        if self._valid_range is None or index is None:
            raise InvalidBatchError(
                "Expected AdversarialAccuracy.prepare(data) before the first batch, and batches "
                "with an `index`. evaluate() does both."
            )
        y = probe.batch.y
        rows: Rows = {"clean": probe.logits.argmax(dim=1) == y}
        for norm, step in self._runs():
            standing = rows["clean"]
            for epsilon in self.epsilons:
                standing = self._standing(probe, index, standing, (norm, step, epsilon))
                rows[_key(norm, step, epsilon)] = standing
        return rows

    def summary(self, rows: Rows) -> dict[str, float]:
        """See `Metric.summary`."""
        keys = [_key(*column) for column in self._columns()]
        all_stood = torch.stack([rows[key] for key in keys]).all(dim=0)
        shares = {key: _share(rows[key]) for key in keys}
        clean, size = _share(rows["clean"]), float(len(all_stood))
        return {"": _share(all_stood), **shares, "clean": clean, "n": size}

    def _standing(
        self,
        probe: Probe,
        index: Tensor,
        standing: Tensor,
        column: tuple[BallNorm, float | None, float],
    ) -> Tensor:
        rows = standing.nonzero().flatten()
        if not len(rows):
            return standing
        attacks = self._attacks(*column, max_rows=probe.max_rows)
        x, y = probe.features.detach()[rows], probe.batch.y[rows]
        fooled = strongest_of(attacks, probe.model, x, y, index=index[rows]).fooled
        left = standing.clone()
        left[rows[fooled]] = False
        return left

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


def _share(column: Tensor) -> float:
    return float(column.double().mean())
