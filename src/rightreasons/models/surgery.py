"""Model surgery: the same net with other activations, and the layer that gives the logits."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from rightreasons.core.checks import positive_float
from rightreasons.core.model_modes import test_time_mode
from rightreasons.core.tracing import TracedModel, call_name, calling_module, trace_graph
from rightreasons.errors import InvalidSettingError, UnsupportedLayerError
from rightreasons.models.foreign import Binary

__all__ = ["last_linear", "read_inputs", "with_softplus"]

_RELU_CALLS = ("relu", "relu6", "threshold")  # and those that work in place


def with_softplus(model: nn.Module, beta: float) -> nn.Module:
    r"""A copy of the model with Softplus in place of every ReLU; the original stays as it is.

    .. math:: \frac1\beta \log(1 + e^{\beta z})

    is smooth, so that its input gradients have a gradient everywhere, and approaches ReLU as
    :math:`\beta` grows. Attacks on attributions need it: a ReLU net has no curvature to follow.
    The weights are copied, under the same names. Activations must be modules: a copy cannot
    exchange calls such as ``F.relu(x)`` in the model's code, so they are refused.

    Args:
        model: Any module that `torch.fx` can trace.
        beta: Sharpness of the bend; 3 in the alignment paper's nets.

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


def _refuse_calls(model: nn.Module) -> None:
    graph = trace_graph(
        TracedModel(model),
        is_leaf=lambda module: isinstance(module, nn.ReLU),
        problem="to see ReLUs in its code, but it depends on values",
        remedy="Build it with nn.Softplus in the first place.",
    )
    calls = [node for node in graph.nodes if node.op in ("call_function", "call_method")]
    paths = [calling_module(node) for node in calls if call_name(node.target) in _RELU_CALLS]
    if paths:
        where = ", ".join(f"`{path}`" if path else "the model" for path in dict.fromkeys(paths))
        raise UnsupportedLayerError(
            f"Expected every ReLU to be a module, but the code of {where} calls one. Write "
            "self.relu = nn.ReLU() in its constructor and call that."
        )


def last_linear(
    model: nn.Module,
    x: Tensor,
    inputs: Mapping[str, Tensor] | None = None,
    *,
    num_classes: int = 1,
) -> nn.Linear:
    """Find the linear layer whose output is the logits.

    Args:
        model: Gives logits.
        x: Inputs it can take; one sample is passed through.
        inputs: What else it takes, such as an attention mask.
        num_classes: Fewest outputs that the layer must have.

    Example:
        >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        >>> last_linear(model, torch.zeros(1, 3))
        Linear(in_features=4, out_features=2, bias=True)
    """
    outputs: list[tuple[nn.Linear, Tensor]] = []

    def record(module: nn.Module, inputs: object, output: Tensor) -> None:
        del inputs
        if isinstance(module, nn.Linear):
            outputs.append((module, output))

    inside: list[Tensor] = []  # what adapters make logits of
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    hooks = [module.register_forward_hook(record) for module in linear]
    adapted = [module.net for module in model.modules() if isinstance(module, Binary)]
    hooks += [net.register_forward_hook(lambda *call: inside.append(call[2])) for net in adapted]
    try:
        with torch.no_grad(), test_time_mode(model):
            first = {name: one[:1] for name, one in (inputs or {}).items()}
            logits = model(x[:1], **first)
    finally:
        for hook in hooks:
            hook.remove()
    last = [module for module, output in outputs if any(output is one for one in (logits, *inside))]
    if not last:
        raise InvalidSettingError(
            "Expected a model whose logits are the output of an nn.Linear, its last layer, but "
            f"{type(model).__name__} has none. Use a model that ends with one."
        )
    if last[-1].out_features < num_classes:
        raise InvalidSettingError(
            f"Expected a last layer with an output for each of {num_classes} classes, but it has "
            f"{last[-1].out_features}. Use a model with {num_classes} outputs, or another strategy."
        )
    return last[-1]


@contextmanager
def read_inputs(layer: nn.Module) -> Iterator[list[Tensor]]:
    """Record the inputs of a layer within the context."""
    inputs: list[Tensor] = []
    hook = layer.register_forward_pre_hook(lambda module, args: inputs.append(args[0]))
    try:
        yield inputs
    finally:
        hook.remove()
