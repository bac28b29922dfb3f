"""Deep feature reweighting: a new last layer, learned from balanced groups."""

from __future__ import annotations

from typing import Literal, final

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from rightreasons.core.checks import check_choice, check_integer, positive_float
from rightreasons.core.model_modes import test_time_mode
from rightreasons.core.rng import random_stream
from rightreasons.datasets import Dataset, InMemory
from rightreasons.errors import InvalidSettingError
from rightreasons.models.surgery import last_linear, read_inputs
from rightreasons.objectives import CrossEntropy, Objective, WeightDecay
from rightreasons.probe.embeddings import call_model
from rightreasons.probe.probe import move_to_model
from rightreasons.strategies.strategy import Stages, Strategy
from rightreasons.training.distributed import seeded
from rightreasons.training.settings import DEFAULTS, LATER
from rightreasons.types import Batch

__all__ = ["DFR", "compute_features", "draw_balanced"]

BATCH_SIZE = 500


def draw_balanced(group: Tensor, stream: np.random.Generator) -> Tensor:
    """Draw as many samples of each group as the smallest has; samples of group -1 are left out.

    Example:
        >>> group = torch.tensor([0, 0, 0, 2, -1])
        >>> indices = draw_balanced(group, np.random.default_rng(0))
        >>> group[indices]
        tensor([0, 2])
    """
    known = group.numpy()
    members = [np.flatnonzero(known == number) for number in np.unique(known[known >= 0])]
    count = min(map(len, members))
    drawn = [stream.choice(rows, size=count, replace=False) for rows in members]
    return torch.from_numpy(np.sort(np.concatenate(drawn)))


@final
class DFR(Strategy):
    """DFR: train, then retrain the last layer on data with groups of equal size.

    A model with a shortcut often has good features too; its last layer weighs the shortcut too
    much. A new last layer is trained from random weights on features of data with groups, once
    for each of several balanced draws. The average of these layers is used. Features are scaled
    to mean 0 and deviation 1 for this, and the scale is folded into the layer.

    With ``source="validation"``, as in the paper, the last layer learns from validation data.
    Then measurements on these data are biased: choose settings on other data.

    Differs from the paper: an l2 penalty in place of l1 and its search by validation data.

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
        data, group = self._find_groups(stages)
        first = move_to_model(data.take(torch.tensor([0])), model)
        classes = len(data.card.classes)
        layer = last_linear(model, first.x, first.inputs, num_classes=classes)
        stages.fit("train", model, objective, stages.data.train)
        features = compute_features(model, layer, data)
        mean, scale = features.mean(dim=0), features.std(dim=0, correction=0)
        if layer.bias is None:
            mean = torch.zeros_like(mean)
        scale = torch.where(scale > 0, scale, 1)
        scaled, labels = (features - mean) / scale, data.labels.cpu()
        heads = []
        for draw in range(self.num_draws):
            stream = random_stream(int(stages.settings.get("seed", DEFAULTS.seed)), "dfr", draw)
            indices = draw_balanced(group, stream)
            balanced = InMemory(Batch(x=scaled[indices], y=labels[indices]))
            heads.append(self._fit_head(layer, balanced, stages))
        weight = torch.stack([head.weight.detach().cpu() for head in heads]).mean(dim=0) / scale
        with torch.no_grad():
            layer.weight.copy_(weight)
            if layer.bias is not None:
                bias = torch.stack([head.bias.detach().cpu() for head in heads]).mean(dim=0)
                layer.bias.copy_(bias - weight @ mean)

    def _find_groups(self, stages: Stages) -> tuple[Dataset, Tensor]:
        data = stages.data.val if self.source == "validation" else stages.data.train
        group = None if data is None else data.groups
        if data is None or group is None or not bool((group >= 0).any()):
            raise InvalidSettingError(
                f"Expected {self.source} data with groups for DFR, but got "
                f"{'no such data' if data is None else 'no groups'}. Use data with groups, hold "
                'some out for validation, or use source="train".'
            )
        there = torch.unique(data.labels[(group >= 0).to(data.labels.device)])
        needed = torch.unique(stages.data.train.labels)
        missing = [data.card.classes[y] for y in needed.tolist() if y not in there.tolist()]
        if missing:
            raise InvalidSettingError(
                f"Expected {self.source} data with groups in every class for DFR, which learns the "
                f"last layer from them, but got none of {', '.join(missing)}. Hold samples of "
                'these out, or use source="train".'
            )
        return data, group.cpu()

    def _fit_head(self, layer: nn.Linear, data: Dataset, stages: Stages) -> nn.Linear:
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
            **{name: getattr(DEFAULTS, name) for name in LATER},
        )
        return head


def compute_features(model: nn.Module, layer: nn.Module, data: Dataset) -> Tensor:
    """Compute the inputs of ``layer`` for each sample, ``(N, F)``, in test mode."""
    features = []
    for batch in data.batches(torch.split(torch.arange(len(data)), BATCH_SIZE)):
        with torch.no_grad(), test_time_mode(model), read_inputs(layer) as inputs:
            moved = move_to_model(batch, model)
            call_model(model, moved.x, moved.inputs)
        features.append(inputs[-1].cpu())
    return torch.cat(features)
