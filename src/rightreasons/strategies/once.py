"""The plain way: one fit."""

from typing import final

from torch import nn

from rightreasons.objectives import Objective
from rightreasons.strategies.stages import Stages
from rightreasons.strategies.strategy import Strategy

__all__ = ["Once"]


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

    def run(self, model: nn.Module, objective: Objective, stages: Stages) -> None:
        """See `Strategy.run`."""
        stages.fit(None, model, objective, stages.data.train)
