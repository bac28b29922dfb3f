"""Grad-CAM: feature maps weighed by their mean gradient."""

from typing import final

from torch import Tensor

from rightreasons.explainers.class_activation import ClassActivation

__all__ = ["GradCAM"]


@final
class GradCAM(ClassActivation):
    r"""Grad-CAM: feature maps weighed by their mean gradient.

    .. math:: w_k = \frac{1}{HW} \sum_{ij} \frac{\partial t}{\partial A_{kij}}

    Args:
        layers: See `ClassActivation`.
        target: See `Explainer`.

    Example:
        >>> import torch
        >>> from rightreasons.models import small_cnn
        >>> x, y = torch.rand(2, 3, 28, 28), torch.tensor([0, 1])
        >>> GradCAM()(small_cnn(classes=2), x, y).shape
        torch.Size([2, 1, 28, 28])

    References:
        selvaraju2017grad
    """

    def channel_weights(self, activation: Tensor, gradient: Tensor) -> Tensor:
        """See `ClassActivation.channel_weights`."""
        del activation
        return gradient.mean(dim=(2, 3))
