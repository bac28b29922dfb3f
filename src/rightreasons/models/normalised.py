"""Normalisation inside the model, so that inputs, masks and boxes keep their own units."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rightreasons.errors import InvalidSettingError

__all__ = ["Normalise", "normalised"]


class Normalise(nn.Module):
    """Subtracts a mean and divides by a deviation; one number each, or one for each channel.

    Args:
        mean: Mean of each channel, or one number for all.
        deviation: Standard deviation of each channel, above 0.

    Shape:
        x ``(N, C, ...)``; the result has the same shape.

    Example:
        >>> Normalise(mean=[0.5], deviation=[0.25])(torch.ones(1, 1, 1, 2))
        tensor([[[[2., 2.]]]])
    """

    mean: Tensor
    deviation: Tensor

    def __init__(
        self, *, mean: float | Sequence[float], deviation: float | Sequence[float]
    ) -> None:
        super().__init__()
        values = [
            torch.as_tensor(value, dtype=torch.get_default_dtype()) for value in (mean, deviation)
        ]
        deviations = torch.as_tensor(deviation, device="cpu")  # values, also on the meta device
        if any(value.ndim > 1 for value in values) or not bool((deviations > 0).all()):
            raise InvalidSettingError(
                f"Expected `mean` and `deviation` to be numbers, or one for each channel, and the "
                f"deviation to be above 0, but got {mean!r} and {deviation!r}."
            )
        for name, value in zip(("mean", "deviation"), values, strict=True):
            self.register_buffer(name, value.reshape(-1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Inputs ``(N, C, ...)`` -> normalised inputs of the same shape."""
        return (x - self.mean) / self.deviation


def normalised(
    model: nn.Module, *, mean: float | Sequence[float], deviation: float | Sequence[float]
) -> nn.Sequential:
    """Put normalisation before a model of images: layers ``normalise`` and ``net``.

    Then epsilons, masks and attributions have the units of the data, not of the net.

    Example:
        >>> model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
        >>> normalised(model, mean=0.5, deviation=0.25)(torch.rand(3, 1, 2, 2)).shape
        torch.Size([3, 2])
    """
    layers = OrderedDict(normalise=Normalise(mean=mean, deviation=deviation), net=model)
    return nn.Sequential(layers)
