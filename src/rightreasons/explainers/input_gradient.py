"""The gradient itself: how the prediction reacts to each feature."""

from typing import final

from torch import Tensor

from rightreasons.explainers.explainer import Explainer
from rightreasons.explainers.subject import Subject

__all__ = ["InputGradient"]


@final
class InputGradient(Explainer):
    r"""The input gradient, or "saliency": how the prediction reacts to each feature.

    .. math:: h(x) = \nabla_x t(x)

    Differs from the paper: signs and channels are kept; Simonyan et al. take the largest absolute
    value over channels. See `postprocessed`.

    Args:
        target: See `Explainer`.

    Example:
        >>> import torch
        >>> model = torch.nn.Linear(3, 2, bias=False)
        >>> x, y = torch.rand(1, 3), torch.tensor([1])
        >>> torch.equal(InputGradient()(model, x, y)[0], model.weight[1])
        True

    References:
        simonyan2014deep
    """

    def attribution(self, subject: Subject) -> Tensor:
        """See `Explainer.attribution`."""
        return subject.probe().gradient(self.target)
