"""Model surgery: the same net with other activations."""

from __future__ import annotations

import copy
from typing import Any

from torch import fx, nn

from rightreasons.core.checks import positive_float
from rightreasons.errors import UnsupportedLayerError

__all__ = ["with_softplus"]

_RELU_CALLS = ("relu", "relu_", "relu6", "threshold", "threshold_")


def with_softplus(model: nn.Module, beta: float) -> nn.Module:
    r"""A copy of the model with Softplus in place of every ReLU; the original stays as it is.

    .. math:: \frac1\beta \log(1 + e^{\beta z})

    is smooth, so that its input gradients have a gradient everywhere, and goes to ReLU as
    :math:`\beta` grows. Attacks on attributions need it: a ReLU net has no curvature to follow.
    The weights are copied, under the same names. Activations must be modules; calls such as
    ``F.relu(x)`` in the model's code, which a copy cannot exchange, are refused.

    Args:
        model: Any module that `torch.fx` can trace.
        beta: How sharp the bend is; 3 in the alignment paper's nets.

    Example:
        >>> with_softplus(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), 10.0)[1]
        Softplus(beta=10.0, threshold=20.0)
    """
    positive_float("beta", beta)
    _refuse_calls(model)
    smooth = copy.deepcopy(model)
    replaced: dict[nn.Module, nn.Module] = {
        module: nn.Softplus(beta=float(beta)).train(module.training)
        for module in smooth.modules()
        if isinstance(module, nn.ReLU)
    }
    for parent in smooth.modules():
        for name, child in list(parent._modules.items()):  # a shared one has several names
            if child in replaced:
                parent._modules[name] = replaced[child]
    return replaced.get(smooth, smooth)


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, nn.ReLU) or super().is_leaf_module(m, module_qualified_name)

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        del forward  # would run hooks, which expect tensors
        return super().call_module(m, m.forward, args, kwargs)


def _refuse_calls(model: nn.Module) -> None:
    try:
        nodes = _Tracer().trace(nn.Sequential(model)).nodes
    except Exception as error:  # whatever the model's code makes of a proxy
        raise UnsupportedLayerError(
            "Expected a model that torch.fx can trace, to see ReLUs in its code, but it depends on "
            f"values: {error} Build it with nn.Softplus in the first place."
        ) from error
    calls = [node for node in nodes if node.op in ("call_function", "call_method")]
    places = [
        list(node.meta.get("nn_module_stack") or {"0": None})[-1].removeprefix("0").lstrip(".")
        for node in calls
        if getattr(node.target, "__name__", node.target) in _RELU_CALLS
    ]
    if places:
        where = ", ".join(f"`{place}`" if place else "the model" for place in dict.fromkeys(places))
        raise UnsupportedLayerError(
            f"Expected every ReLU to be a module, but the code of {where} calls one. Write "
            "self.relu = nn.ReLU() in its constructor and call that."
        )
