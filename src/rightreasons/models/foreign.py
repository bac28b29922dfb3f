"""Adapters for models of other libraries, so that they take ``x`` and give logits ``(N, K)``."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from rightreasons.core.checks import check_choice
from rightreasons.core.outputs import last_operation
from rightreasons.errors import InvalidBatchError, InvalidSettingError

__all__ = ["Binary", "HuggingFace", "binary", "huggingface"]


class HuggingFace(nn.Module):
    """A classifier of Hugging Face's transformers that takes ``x`` and gives its ``.logits``.

    Args:
        model: The classifier; its layers are below ``net``.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.net = model
        self.input_name = _main_input(model)

    @override
    def forward(self, x: Tensor, **inputs: Any) -> Tensor:
        """Inputs ``(N, ...)`` -> logits ``(N, K)``.

        Args:
            x: Pixels, or what else the model's main input is.
            inputs: What else the model takes, such as ``attention_mask``.
        """
        output = self.net(**{self.input_name: x}, **inputs)
        logits = getattr(output, "logits", None)
        if logits is None:
            raise InvalidBatchError(
                f"Expected a model whose output has `.logits`, but {type(self.net).__name__} gives "
                f"{type(output).__name__}. Use the class for classification, such as "
                "AutoModelForImageClassification, with return_dict=True."
            )
        return logits  # type: ignore[no-any-return]


def huggingface(model: nn.Module) -> HuggingFace:
    """Adapt a classifier of Hugging Face's transformers: it takes ``x`` and gives logits.

    Nothing is imported from transformers here, so every version works. Images must have the size
    and scale that the model takes: put normalisation before it with `normalised`.

    Args:
        model: A model for image or text classification, such as `ViTForImageClassification`.

    Example:
        >>> class Output:
        ...     logits = torch.zeros(2, 5)
        >>> class Net(nn.Module):
        ...     def forward(self, pixel_values):
        ...         return Output()
        >>> huggingface(Net())(torch.rand(2, 3, 8, 8)).shape
        torch.Size([2, 5])
    """
    if isinstance(model, HuggingFace):
        return model
    if not isinstance(model, nn.Module):
        raise InvalidSettingError(
            f"Expected a model of transformers, an nn.Module, but got {type(model).__name__}."
        )
    return HuggingFace(model)


def _main_input(model: nn.Module) -> str:
    """The name under which a model's forward takes its features."""
    named = getattr(model, "main_input_name", None)
    taken = list(inspect.signature(model.forward).parameters)
    candidates = [named] if isinstance(named, str) else []
    candidates += ["pixel_values", "input_ids", "input_values", "input_features"]
    for name in candidates:
        if name in taken:
            return name
    raise InvalidSettingError(
        f"Expected a model of transformers, whose forward takes `pixel_values` or `input_ids`, but "
        f"that of {type(model).__name__} takes {', '.join(taken) or 'nothing'}. Write a small "
        "nn.Module that returns its logits."
    )


class Binary(nn.Module):
    r"""A model with one logit for two classes, as one with two: :math:`(0, z)` or :math:`(z, 0)`.

    The probability of the class is then the sigmoid of :math:`z`, and the cross-entropy is the
    binary one.

    Args:
        model: Gives ``(N, 1)`` or ``(N,)``; its layers are below ``net``.
        positive: Number of the class whose logit it gives: 0 or 1.
    """

    def __init__(self, model: nn.Module, positive: int = 1) -> None:
        super().__init__()
        self.net = model
        self.positive = check_choice("positive", positive, (0, 1))

    @override
    def forward(self, x: Tensor, **inputs: Any) -> Tensor:
        """Inputs ``(N, ...)`` -> logits ``(N, 2)``."""
        logit = self.net(x, **inputs)
        shape = tuple(getattr(logit, "shape", ()))
        if shape not in ((len(x),), (len(x), 1)):
            got = shape if isinstance(logit, Tensor) else type(logit).__name__
            raise InvalidBatchError(
                f"Expected a model with one logit for two classes, shape ({len(x)}, 1), but got "
                f"{got}. Use `binary` for such models only."
            )
        if last_operation(logit) == "Sigmoid":
            raise InvalidBatchError(
                "Expected a model that gives a logit, but it ends in sigmoid: its output is a "
                "probability. Return what goes into the sigmoid."
            )
        logit = logit.reshape(-1, 1)
        return torch.cat([0 * logit, logit] if self.positive else [logit, 0 * logit], dim=1)


def binary(model: nn.Module, *, positive: int = 1) -> Binary:
    """Adapt a model that gives one logit for two classes.

    Args:
        model: Gives ``(N, 1)`` or ``(N,)``.
        positive: Number of the class whose logit it gives: 0 or 1.

    Example:
        >>> model = binary(nn.Linear(3, 1))
        >>> model(torch.zeros(2, 3)).shape
        torch.Size([2, 2])
    """
    return Binary(model, positive)
