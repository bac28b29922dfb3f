"""XGrad-CAM: feature maps weighed by the gradient where they are active."""

from typing import final

import torch
from torch import Tensor

from rightreasons.explainers.class_activation import ClassActivation

__all__ = ["XGradCAM"]


@final
class XGradCAM(ClassActivation):
    r"""XGrad-CAM: feature maps weighed by the gradient where they are active.

    .. math:: w_k = \sum_{ij} \frac{A_{kij}}{\sum_{i'j'} A_{ki'j'}}
        \frac{\partial t}{\partial A_{kij}}

    The weights suit activations of one sign, as behind a ReLU; a map that sums to zero gets none.

    Args:
        layers: See `ClassActivation`.
        target: See `Explainer`.

    Example:
        >>> from rightreasons.models import small_cnn
        >>> x, y = torch.rand(2, 3, 28, 28), torch.tensor([0, 1])
        >>> XGradCAM()(small_cnn(classes=2), x, y).shape
        torch.Size([2, 1, 28, 28])

    References:
        fu2020axiom
    """

    def channel_weights(self, activation: Tensor, gradient: Tensor) -> Tensor:
        """See `ClassActivation.channel_weights`."""
        total = activation.sum(dim=(2, 3))
        weighted = (activation * gradient).sum(dim=(2, 3))
        is_silent = total == 0
        return torch.where(is_silent, 0, weighted / torch.where(is_silent, 1, total))
