"""Just train twice: errors of the first model count more for the second."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from typing_extensions import override

from rightreasons.core.checks import check_integer, positive_float
from rightreasons.core.model_modes import test_time_mode
from rightreasons.datasets import Dataset, Selected
from rightreasons.objectives import Objective
from rightreasons.probe.embeddings import call_model
from rightreasons.probe.probe import move_to_model
from rightreasons.strategies.strategy import Stages, Strategy

__all__ = ["JTT"]

logger = logging.getLogger("rightreasons")

BATCH_SIZE = 500


@final
class JTT(Strategy):
    """JTT: train briefly, then train again with the misclassified samples repeated.

    A first model is trained for a few epochs, so that it learns the shortcut and little else. A
    second model, from the same initial weights, then sees the training samples that the first one
    got wrong ``upweight`` times in each epoch. Groups are not needed, but the paper chooses both
    settings by the worst group of validation data.

    Differs from the paper: the first model has the second one's optimizer and weight decay.

    Args:
        first_epochs: Epochs of the first model.
        first_lr: Learning rate of the first model, if not the run's.
        upweight: How often the second model sees an error of the first in each epoch.

    References:
        liu2021just
    """

    def __init__(
        self, *, first_epochs: int = 1, first_lr: float | None = None, upweight: int = 20
    ) -> None:
        self.first_epochs = check_integer("first_epochs", first_epochs)
        self.first_lr = None if first_lr is None else positive_float("first_lr", first_lr)
        self.upweight = check_integer("upweight", upweight)

    @override
    def run(self, model: nn.Module, objective: Objective, stages: Stages) -> None:
        train = stages.data.train
        start = {name: value.clone() for name, value in model.state_dict().items()}
        changes: dict[str, Any] = {"epochs": self.first_epochs, "select": "none"}
        if self.first_lr is not None:
            changes["lr"] = self.first_lr
        stages.fit("identify", model, objective, train, **changes)
        is_wrong = stages.compute_once("errors", len(train), lambda: find_errors(model, train))
        errors = torch.from_numpy(np.flatnonzero(is_wrong))
        if not len(errors):
            logger.warning(
                "The first model of JTT made no error on the training data: the second is "
                "trained as usual. Use fewer `first_epochs`, or a smaller `first_lr`."
            )
        model.load_state_dict(start)
        indices = torch.cat([torch.arange(len(train)), errors.repeat(self.upweight - 1)])
        stages.fit("train", model, objective, Selected(train, indices))


def find_errors(model: nn.Module, data: Dataset) -> Iterator[NDArray[np.bool_]]:
    """Find the samples that the model gets wrong, in test mode; booleans, batch by batch."""
    rows = torch.split(torch.arange(len(data)), BATCH_SIZE)
    for batch in data.batches(rows):
        with torch.no_grad(), test_time_mode(model):
            moved = move_to_model(batch, model)
            predicted = call_model(model, moved.x, moved.inputs).argmax(dim=1).cpu()
        yield (predicted != batch.y.cpu()).numpy()
