"""Deep feature reweighting: a new last layer, from data in which all groups are alike."""

from __future__ import annotations

from typing import Literal, final

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from rightreasons.core.checks import check_choice, check_integer, positive_float
from rightreasons.core.rng import random_stream
from rightreasons.datasets import Dataset, InMemory
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives import CrossEntropy, Objective, WeightDecay
from rightreasons.strategies.last_linear import features_of, last_linear
from rightreasons.strategies.strategy import Stages, Strategy
from rightreasons.training.distributed import seeded
from rightreasons.training.settings import DEFAULTS
from rightreasons.types import Batch

__all__ = ["DFR", "balanced_places"]


def balanced_places(group: Tensor, stream: np.random.Generator) -> Tensor:
    """As many samples of each group as the smallest has, drawn at random; -1 is left out.

    Example:
        >>> group = torch.tensor([0, 0, 0, 2, -1])
        >>> places = balanced_places(group, np.random.default_rng(0))
        >>> group[places]
        tensor([0, 2])
    """
    known = group.numpy()
    members = [np.flatnonzero(known == number) for number in np.unique(known[known >= 0])]
    count = min(map(len, members))
    drawn = [stream.choice(some, size=count, replace=False) for some in members]
    return torch.from_numpy(np.sort(np.concatenate(drawn)))


@final
class DFR(Strategy):
    """DFR: train, then retrain the last layer where all groups are equally many.

    Features learned with a shortcut beside them are often good enough; it is the last layer that
    leans on it. It is trained anew, from random weights, on features of several balanced draws
    of data with groups, and the average of these layers is used. Features are scaled to mean 0
    and deviation 1 for that, and the scale is folded into the layer.

    With ``source="validation"``, as in the paper, the last layer learns from validation data, and
    what is then measured on these is no longer honest: choose settings elsewhere.

    Differs from the paper: an l2 penalty in the place of l1 and its search by validation data.

    Args:
        source: ``"validation"`` or ``"train"``: whose groups are balanced.
        num_draws: Balanced draws, one fit each; 10 in the paper.
        head_epochs: Epochs of each fit of the last layer.
        head_lr: Its rate, with Adam and a cosine schedule.
        head_decay: Weight of the squared norm of the last layer.

    References:
        kirichenko2023last
    """

    def __init__(
        self,
        *,
        source: Literal["validation", "train"] = "validation",
        num_draws: int = 10,
        head_epochs: int = 50,
        head_lr: float = 0.01,
        head_decay: float = 1e-3,
    ) -> None:
        self.source = check_choice("source", source, ("validation", "train"))
        self.num_draws = check_integer("num_draws", num_draws)
        self.head_epochs = check_integer("head_epochs", head_epochs)
        self.head_lr = positive_float("head_lr", head_lr)
        self.head_decay = positive_float("head_decay", head_decay)

    @override
    def run(self, model: nn.Module, objective: Objective, stages: Stages) -> None:
        data, group = self._grouped(stages)
        layer = last_linear(model, data.take(torch.tensor([0])).x.to(_place_of(model)))
        stages.fit("train", model, objective, stages.data.train)
        features = features_of(model, layer, data)
        mean, scale = features.mean(dim=0), features.std(dim=0, correction=0)
        if layer.bias is None:
            mean = torch.zeros_like(mean)
        scale = torch.where(scale > 0, scale, 1)
        scaled, labels = (features - mean) / scale, data.labels.cpu()
        heads = []
        for draw in range(self.num_draws):
            stream = random_stream(int(stages.settings.get("seed", DEFAULTS.seed)), "dfr", draw)
            places = balanced_places(group, stream)
            some = InMemory(Batch(x=scaled[places], y=labels[places]))
            heads.append(self._head(layer, some, stages))
        weight = torch.stack([head.weight.detach().cpu() for head in heads]).mean(dim=0) / scale
        with torch.no_grad():
            layer.weight.copy_(weight)
            if layer.bias is not None:
                bias = torch.stack([head.bias.detach().cpu() for head in heads]).mean(dim=0)
                layer.bias.copy_(bias - weight @ mean)

    def _grouped(self, stages: Stages) -> tuple[Dataset, Tensor]:
        data = stages.data.val if self.source == "validation" else stages.data.train
        group = None if data is None else data.groups
        if data is None or group is None or not bool((group >= 0).any()):
            raise InvalidSettingError(
                f"Expected {self.source} data with groups for DFR, but got "
                f"{'no such data' if data is None else 'no groups'}. Use data with groups, hold "
                'some out for validation, or use source="train".'
            )
        return data, group.cpu()

    def _head(self, layer: nn.Linear, data: Dataset, stages: Stages) -> nn.Linear:
        with seeded(stages.seed):
            has_bias = layer.bias is not None
            head = nn.Linear(layer.in_features, layer.out_features, bias=has_bias)
        stages.fit(
            "head",
            head,
            CrossEntropy() + self.head_decay * WeightDecay(),
            data,
            validation=None,
            select="none",
            epochs=self.head_epochs,
            lr=self.head_lr,
            optimizer="adam",
            scheduler="cosine",
        )
        return head


def _place_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device
