"""After every fit: did the model learn, and did a penalty switch learning off?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from rightreasons.objectives import Loss
from rightreasons.objectives.auto_weight import gradient_norm

__all__ = ["Diagnosis", "diagnose", "pulls"]


@dataclass(frozen=True)
class Diagnosis:
    """What training came to.

    Args:
        learned: Whether the model answers better than with the most frequent class.
        message: One or two sentences for the user, with the remedy if there is one to offer.
        suspects: Penalties that pulled at the weights harder than the task, if it did not learn.
    """

    learned: bool
    message: str
    suspects: tuple[str, ...] = ()


def pulls(loss: Loss) -> dict[str, float]:
    r"""How hard each part pulls: :math:`w_t \lVert \nabla_\theta \mathrm{part}_t \rVert_2`."""
    return {
        name: loss.weights[name] * gradient_norm(part, loss.parameters, len(loss.logits))
        for name, part in loss.parts.items()
    }


def _ratio(penalty: float, task: float) -> float:
    if task > 0:
        return penalty / task
    return math.inf if penalty > 0 else 0.0


def diagnose(
    accuracy: float,
    labels: Tensor,
    weights: Mapping[str, float],
    task: str,
    pulls_by_epoch: list[Mapping[str, float]],
) -> Diagnosis:
    """Judge a finished fit.

    Args:
        accuracy: On the training samples, during the last epoch.
        labels: Of the training samples.
        weights: Of the objective's terms.
        task: Which of them is the task, not a penalty.
        pulls_by_epoch: What `pulls` gave at the start of each epoch.
    """
    size = len(labels)
    frequent = float(torch.bincount(labels).max()) / size
    margin = max(0.02, 3 * math.sqrt(frequent * (1 - frequent) / size))
    if frequent == 1:
        return Diagnosis(True, "All training samples are of one class: there is nothing to learn.")
    compared = f"training accuracy {accuracy:.3f}, most frequent class {frequent:.3f}"
    if accuracy > frequent + min(margin, (1 - frequent) / 2):
        return Diagnosis(True, f"The model learned ({compared}).")
    penalties = [name for name in weights if name != task]
    ratios = {
        name: max((_ratio(row[name], row[task]) for row in pulls_by_epoch), default=0.0)
        for name in penalties
    }
    suspects = tuple(name for name in penalties if ratios[name] > 1)
    if suspects:
        told = "; ".join(
            f"`{name}` (weight {weights[name]:g}) pulled up to {ratios[name]:.3g} times as hard as "
            f"`{task}`"
            for name in suspects
        )
        remedy = 'Lower its weight, or use weight="auto".'
        message = f"The model did not learn ({compared}): {told}. {remedy}"
        return Diagnosis(False, message, suspects)
    return Diagnosis(
        False,
        f"The model did not learn ({compared}), and no penalty pulled harder than the task. Try "
        "more epochs, another learning rate or a larger model.",
    )
