"""Input times gradient: what each feature adds to a locally linear prediction."""

from typing import final

from torch import Tensor

from rightreasons.explainers.explainer import Explainer
from rightreasons.explainers.subject import Subject

__all__ = ["InputTimesGradient"]


@final
class InputTimesGradient(Explainer):
    r"""Input times gradient: what each feature adds to a locally linear prediction.

    .. math:: h(x) = x \odot \nabla_x t(x)

    For a net of ReLUs without biases the attributions of a logit sum to it.

    Args:
        target: See `Explainer`.

    Example:
        >>> import torch
        >>> model = torch.nn.Linear(3, 2, bias=False)
        >>> x, y = torch.rand(1, 3), torch.tensor([1])
        >>> torch.allclose(InputTimesGradient()(model, x, y).sum(), model(x)[0, 1])
        True

    References:
        shrikumar2017learning
    """

    def attribution(self, subject: Subject) -> Tensor:
        """See `Explainer.attribution`."""
        probe = subject.probe()
        return subject.features * probe.gradient(self.target)
