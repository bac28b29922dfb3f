"""Guided Backprop: activations pass back positive gradients only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from typing_extensions import override

from rightreasons.core.model_modes import refuse_wrappers
from rightreasons.errors import UnsupportedLayerError
from rightreasons.explainers.explainer import Explainer
from rightreasons.explainers.subject import Subject

__all__ = ["GuidedBackprop"]

_GUIDED = {
    *("relu", "relu_", "relu6", "leaky_relu", "leaky_relu_", "rrelu", "prelu", "softplus"),
    *("elu", "elu_", "celu", "celu_", "selu", "selu_", "gelu", "silu", "mish", "hardswish"),
}


@final
class GuidedBackprop(Explainer):
    r"""Guided Backprop: only positive gradients flow back through an activation.

    At every activation :math:`a = \sigma(z)` the gradient is replaced by

    .. math:: \nabla_z = \sigma'(z) \odot \max(\nabla_a, 0)

    It works for modules and for calls such as ``F.relu(x)`` alike: calls of PyTorch's functions are
    intercepted during the pass, and no hook is set.

    Differs from the paper, which guides ReLU alone. Its relatives (Softplus, LeakyReLU, ELU, GELU,
    SiLU and the like) are guided as well, as the alignment paper does with Softplus. Sigmoid and
    Tanh pass the true gradient.

    Args:
        target: The number of the prediction that is explained.

    Example:
        >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        >>> GuidedBackprop()(model, torch.rand(5, 3), torch.zeros(5, dtype=torch.int64)).shape
        torch.Size([5, 3])

    References:
        springenberg2015striving
    """

    @override
    def attribution(self, subject: Subject) -> Tensor:
        refuse_wrappers(subject.model)
        _refuse_scripted(subject.model)
        guide = _Guide()
        with _Guiding(guide):
            probe = subject.probe()
        guide.is_on = True
        try:
            return probe.gradient(self.target)
        finally:
            guide.is_on = False


class _Guide:
    """A switch: whether gradients that flow back now are guided.

    Only the attribution's own backward pass is guided. A later one, from a loss on the attribution
    to the weights, runs through the same activations and must take the true gradient.
    """

    is_on = False


class _Guided(torch.autograd.Function):
    """The identity, whose backward pass keeps positive gradients only while it is guided."""

    @staticmethod
    def forward(ctx: Any, activation: Tensor, guide: _Guide) -> Tensor:
        ctx.guide = guide
        return activation.view_as(activation)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        gradient = gradients[0]
        return gradient.clamp(min=0) if ctx.guide.is_on else gradient, None


class _Guiding(TorchFunctionMode):
    """Puts `_Guided` behind every activation function that is called."""

    def __init__(self, guide: _Guide) -> None:
        super().__init__()
        self.guide = guide

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        del types
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        is_relu6 = name == "hardtanh" and kwargs.get("min_val") == 0  # what nn.ReLU6 calls
        if (name in _GUIDED or is_relu6) and result.requires_grad:
            return _Guided.apply(result, self.guide)  # type: ignore[no-untyped-call]
        return result


def _refuse_scripted(model: nn.Module) -> None:
    names = [n for n, module in model.named_modules() if isinstance(module, torch.jit.ScriptModule)]
    if names:
        where = ", ".join(f"`{name}`" if name else "the model" for name in names)
        raise UnsupportedLayerError(
            f"Expected layers whose activations can be watched, but {where} is scripted. Give the "
            "original module."
        )
