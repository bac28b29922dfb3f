"""What a model gives: finite logits, and no probabilities."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rightreasons.errors import InvalidBatchError, NonFiniteLossError

__all__ = ["checked_logits", "last_operation", "refuse_non_finite", "refuse_probabilities"]

_SAME_VALUES = (
    *("View", "UnsafeView", "Reshape", "Squeeze", "Unsqueeze", "Select", "Slice", "T", "Permute"),
    *("Transpose", "Clone", "ToCopy", "Expand", "Alias", "Contiguous", "AsStrided"),
)


def checked_logits(logits: object, y: Tensor, *, in_training: bool) -> Tensor:
    """Give a model's output in single precision at least, or raise if it is no logits for ``y``.

    Args:
        logits: The output.
        y: Labels ``(N,)``.
        in_training: Whether the loss is checked later, with what to do about it.
    """
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != len(y):
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise InvalidBatchError(
            f"Expected the model to give logits of shape ({len(y)}, classes), but got "
            f"{got}. A binary model needs two outputs; a model that returns an object needs "
            "a small wrapper that returns its logits."
        )
    if y.device.type == "cpu" and len(y) and int(y.max()) >= logits.shape[1]:
        raise InvalidBatchError(
            f"Expected labels from 0 to {logits.shape[1] - 1}, for the {logits.shape[1]} "
            f"outputs of the model, but got {int(y.max())}."
        )
    if not in_training:
        refuse_non_finite(logits)
    refuse_probabilities(logits, look=not in_training)
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def refuse_non_finite(logits: Tensor) -> None:
    """Raise for NaN or infinity, which would be scored and explained as if it meant something."""
    bad = ~torch.isfinite(logits.detach()).all(dim=1)
    if bool(bad.any()):
        raise NonFiniteLossError(
            f"Expected finite logits, but got NaN or infinity for {int(bad.sum())} of {len(bad)} "
            "samples. Check the model's weights, and its inputs for very large values."
        )


def refuse_probabilities(logits: Tensor, *, look: bool = True) -> None:
    """Raise for the output of a softmax, which a second softmax would make nearly uniform.

    Args:
        logits: Outputs ``(N, K)``.
        look: Whether to look at the values too, where no graph tells how they were made.
    """
    if logits.grad_fn is not None:
        ends = last_operation(logits) == "Softmax"
    else:
        ends = look and _sum_to_one(logits)
    if ends:
        raise InvalidBatchError(
            "Expected logits, but the model ends in softmax: its outputs are probabilities. "
            "Losses, gradients and confidence would be wrong. Remove the softmax, as in "
            "`model.softmax = nn.Identity()`, or use log_softmax, whose outputs are logits."
        )


def last_operation(output: Tensor) -> str:
    """The operation that made a tensor, apart from those that only reshape it; empty for a leaf.

    Example:
        >>> x = torch.zeros(2, 3, requires_grad=True)
        >>> last_operation(x.sigmoid()[:, 0])
        'Sigmoid'
    """
    node: Any = output.grad_fn
    while node is not None:
        name = type(node).__name__.split("Backward")[0]
        if name not in _SAME_VALUES:
            return name
        node = next((one for one, _ in node.next_functions if one is not None), None)
    return ""


def _sum_to_one(logits: Tensor) -> bool:
    values = logits.detach().double()
    if values.ndim != 2 or values.shape[1] < 2 or not len(values):
        return False
    inside = (values > 0) & (values < 1)
    return bool(inside.all() & ((values.sum(dim=1) - 1).abs() < 1e-6 * values.shape[1]).all())
