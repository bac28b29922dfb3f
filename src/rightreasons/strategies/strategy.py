"""The plain way: one fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, final

from torch import nn
from typing_extensions import override

from rightreasons.datasets import Splits
from rightreasons.objectives import Objective, Term
from rightreasons.strategies.stages import Stages
from rightreasons.training.fit import Fit

__all__ = ["Once", "Strategy"]


class Strategy(ABC):
    """What every way of training promises; settings go to the constructor, data to `fit`.

    Results depend on the seed and the settings alone, and on the CPU not on how often training
    was killed and resumed, be it inside a fit or between two.
    """

    @final
    def fit(
        self,
        model: nn.Module,
        objective: Objective | Term,
        data: Splits,
        *,
        out: str | Path | None = None,
        resume: bool = False,
        **settings: Any,
    ) -> Fit:
        """Train ``model`` in place, and leave it in test mode.

        Args:
            model: Gives logits ``(N, K)``. To resume, give it as it was at the start.
            objective: What every fit minimises, unless the strategy says otherwise.
            data: All parts; strategies say which they read.
            out: Folder of the run, see `Stages`; None writes nothing.
            resume: Go on with the run in ``out``, if there is one.
            settings: As `fit` has them: ``epochs``, ``lr``, ``seed``, ...

        Returns:
            The last fit's weights, selection and diagnosis, with the history and the seconds of
            all; where there are several, a row of the history says its ``stage``.
        """
        stages = Stages(data, out=out, resume=resume, settings=dict(settings))
        self.run(model, objective.as_objective(), stages)
        return stages.finished(model)

    def deployed(self, model: nn.Module, folder: Path) -> nn.Module:
        """What is used of a finished run: the trained model, unless the strategy has more.

        Args:
            model: The one that was trained.
            folder: Folder of the run.
        """
        del folder
        return model

    @abstractmethod
    def run(self, model: nn.Module, objective: Objective, stages: Stages) -> None:
        """The procedure: fits through ``stages``, which leave their weights in ``model``."""


@final
class Once(Strategy):
    """One fit of the training data: what a run does unless told otherwise.

    Example:
        >>> import rightreasons as rr
        >>> data = rr.datasets.decoy_digits(seed=0)
        >>> model = rr.models.create("mlp", classes=10, channels=1, size=14, hidden=(8,))
        >>> fitted = Once().fit(model, rr.recipes.erm(), data, epochs=1, accelerator="cpu")
        >>> len(fitted.history)
        1
    """

    @override
    def run(self, model: nn.Module, objective: Objective, stages: Stages) -> None:
        stages.fit(None, model, objective, stages.data.train)
