"""How a model is run: its mode, its recorded outputs, and derivatives of its derivatives.

Modes change and hooks stay for one pass only. A model that cannot be differentiated twice is
mended where that is possible, else refused with a remedy.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from rightreasons.errors import (
    DoubleBackwardError,
    UnknownNameError,
    UnsupportedLayerError,
)

__all__ = [
    "Statistics",
    "alteration",
    "depends_on_mode",
    "hold_model",
    "innermost",
    "out_of_place",
    "record_outputs",
    "refuse_altered_modules",
    "refuse_dead_ends",
    "refuse_wrappers",
    "statistics_of",
    "test_time_mode",
    "translate_autograd_errors",
    "twice_differentiable",
    "with_statistics",
]

Statistics = list[tuple[nn.Module, dict[str, Tensor | None]]]
"""Normalisation layers with copies of their running statistics."""

_MODELESS = {
    *(nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.Identity, nn.Flatten, nn.Unflatten),
    *(nn.Linear, nn.Bilinear, nn.Embedding, nn.LayerNorm, nn.GroupNorm),
    *(nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d),
    *(nn.MaxPool1d, nn.MaxPool2d, nn.AvgPool1d, nn.AvgPool2d, nn.ZeroPad2d, nn.Upsample),
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d),
    *(nn.ReLU, nn.LeakyReLU, nn.ELU, nn.SELU, nn.GELU, nn.SiLU, nn.Softplus, nn.Sigmoid, nn.Tanh),
}
_DEAD_ENDS = ("torch::autograd::Error", "torch::autograd::NotImplemented")
_CAUSES = {
    "modified by an inplace operation": "it changes an activation in place: write `x = x + y` for "
    "`x += y`, and F.relu(x) for F.relu(x, inplace=True)",
    "being used in an in-place operation": "it changes its own input in place: begin its forward "
    "with `x = x.clone()`, or write `x = x + y` for `x += y`",
    "once_differentiable": "it contains a custom autograd function marked `once_differentiable`",
    "Double backwards is not supported": "a cuDNN layer in it has no second derivative: call it "
    "under torch.backends.cudnn.flags(enabled=False)",
    "aot_autograd does not currently support double backward": "a function in it is compiled by "
    "torch.compile: call the original one",
    "Checkpointing is not compatible": "it uses reentrant activation checkpointing: pass "
    "use_reentrant=False to torch.utils.checkpoint",
    "is not implemented": "an operation in it has no second derivative",
}


def depends_on_mode(model: nn.Module) -> bool:
    """Whether a layer in train mode may mix samples or draw random numbers, as BatchNorm may.

    PyTorch's layers that do neither are known. A module of any other class counts.
    """
    return any(module.training and not _is_modeless(module) for module in model.modules())


_locks: WeakKeyDictionary[nn.Module, threading.RLock] = WeakKeyDictionary()
_guard = threading.Lock()


@contextmanager
def hold_model(model: nn.Module) -> Iterator[None]:
    """Let other threads wait that want this model in another mode, or with other hooks."""
    with _guard:
        lock = _locks.setdefault(model, threading.RLock())
    with lock:
        yield


def _forget_locks() -> None:
    """A forked process has none of the threads that held them."""
    global _guard
    _guard = threading.Lock()
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


@contextmanager
def test_time_mode(model: nn.Module) -> Iterator[None]:
    """Put the model in test mode inside the context, and restore its mode afterwards.

    BatchNorm uses its statistics and does not update them; dropout drops nothing.
    """
    with hold_model(model):
        training = [module for module in model.modules() if module.training]
        statistics = statistics_of(model)
        for module in training:
            module.training = False
        try:
            # The graph keeps the statistics it saw; a later pass in train mode moves them in place.
            with with_statistics(statistics):
                yield
        finally:
            for module in training:
                module.training = True


def statistics_of(model: nn.Module) -> Statistics:
    """Copy the statistics of all layers that would update them."""
    norms = nn.modules.batchnorm._NormBase
    layers = [layer for layer in model.modules() if layer.training and isinstance(layer, norms)]
    return [
        (layer, {n: None if b is None else b.clone() for n, b in layer._buffers.items()})
        for layer in layers
    ]


@contextmanager
def with_statistics(statistics: Statistics) -> Iterator[None]:
    """Replace the statistics of layers inside the context, and restore them afterwards."""
    originals = [(layer, dict(layer._buffers)) for layer, _ in statistics]
    for layer, replacements in statistics:
        layer._buffers.update(replacements)
    try:
        yield
    finally:
        for layer, buffers in originals:
            layer._buffers.update(buffers)


@contextmanager
def record_outputs(
    model: nn.Module,
    layers: Sequence[str],
    outputs: dict[str, Tensor],
    *,
    differentiable: bool = False,
) -> Iterator[None]:
    """Write the outputs of the named layers into ``outputs`` while the context lasts.

    If a layer gives a tuple, as blocks of transformers do, its first member is taken.

    Args:
        model: Model with these layers.
        layers: Names, as in ``named_modules``.
        outputs: Dictionary to fill, by name, in the order of execution.
        differentiable: Whether to allow gradients at these outputs behind frozen weights too.
    """
    modules = dict(model.named_modules()) if layers else {}
    for name in layers:
        if name not in modules:
            raise UnknownNameError("layer of the model", name, [key for key in modules if key])

    def record(name: str) -> Callable[[nn.Module, object, Any], None]:
        def hook(module: nn.Module, inputs: object, output: Any) -> None:
            del module, inputs
            output = output[0] if type(output) is tuple and output else output
            if differentiable and torch.is_grad_enabled() and not output.requires_grad:
                output.requires_grad_()
            outputs.pop(name, None)  # a layer that is called again is later in the order
            outputs[name] = output

        hook.only_records = True  # type: ignore[attr-defined]
        return hook

    hooks = [modules[name].register_forward_hook(record(name)) for name in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def innermost(model: nn.Module) -> nn.Module:
    """The user's own module inside DDP, DataParallel and Fabric wrappers."""
    fabric = sys.modules.get("lightning_fabric.wrappers")
    wrappers: tuple[type, ...] = (nn.parallel.DistributedDataParallel, nn.DataParallel)
    if fabric is not None:
        wrappers = (*wrappers, fabric._FabricModule)
    while isinstance(model, wrappers):
        model = model.module  # type: ignore[assignment]
    return model


def refuse_wrappers(model: nn.Module) -> None:
    """Raise for wrappers under which a gradient penalty fails or is silently wrong."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    sharded = () if fsdp is None else (fsdp.FullyShardedDataParallel, fsdp.FSDPModule)
    for name, module in model.named_modules():
        where = f"`{name}`" if name else "the model"
        if getattr(module, "_orig_mod", None) is not None or module._compiled_call_impl is not None:
            raise DoubleBackwardError(
                f"Expected a model that can be differentiated twice, but {where} is compiled by "
                "torch.compile, which cannot. Pass the original module (`model._orig_mod`)."
            )
        if isinstance(module, nn.parallel.DistributedDataParallel) and module.static_graph:
            raise DoubleBackwardError(
                f"Expected DistributedDataParallel without `static_graph=True`, but {where} has "
                "it: gradients of a gradient penalty would be silently wrong. Remove the flag."
            )
        if isinstance(module, sharded):
            raise DoubleBackwardError(
                f"Expected a model that can be differentiated twice, but {where} is sharded by "
                "FSDP. It frees the weights of a layer after its first backward pass, which a "
                "second derivative and bounds need. Use DistributedDataParallel, or a recipe "
                "without input gradients such as counterexamples or group_dro."
            )


def refuse_dead_ends(gradient: Tensor) -> None:
    """Raise if a gradient's graph holds an operation that cannot be differentiated again.

    PyTorch puts an error there, to be raised by a later backward pass. A pass that stops at the
    parameters would go around it, and the operation would silently count as a constant.
    """
    stack, seen = [gradient.grad_fn], set()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.name() in _DEAD_ENDS:
            raise DoubleBackwardError(
                "Expected a model that can be differentiated twice, but an operation in it has no "
                "second derivative: a custom autograd function marked `once_differentiable`, or a "
                "fused kernel. Write it with ordinary PyTorch operations."
            )
        stack.extend(function for function, _ in node.next_functions)


@contextmanager
def translate_autograd_errors() -> Iterator[None]:
    """Turn PyTorch's errors about second derivatives into ones that say what to do."""
    try:
        yield
    except (RuntimeError, NotImplementedError) as error:
        for words, remedy in _CAUSES.items():
            if words in str(error):
                raise DoubleBackwardError(
                    f"Expected a model that can be differentiated twice, but {remedy}. "
                    f"PyTorch says: {error}"
                ) from error
        raise


@contextmanager
def twice_differentiable(model: nn.Module) -> Iterator[None]:
    """Run a forward pass so that its gradient has a gradient.

    Attention uses the math kernel, since the fused ones have no second derivative.
    """
    refuse_wrappers(model)
    with sdpa_kernel(SDPBackend.MATH):
        yield


@contextmanager
def out_of_place(model: nn.Module) -> Iterator[None]:
    """Switch the ``inplace`` flags of layers off inside the context, and on again afterwards.

    A layer in place overwrites what is differentiated or recorded.
    """
    in_place = [module for module in model.modules() if getattr(module, "inplace", False) is True]
    for module in in_place:
        module.inplace = False  # type: ignore[assignment]
    try:
        yield
    finally:
        for module in in_place:
            module.inplace = True  # type: ignore[assignment]


def _is_modeless(module: nn.Module) -> bool:
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return bool(module.p == 0)
    if isinstance(module, nn.modules.instancenorm._InstanceNorm):
        return not module.track_running_stats
    return type(module) in _MODELESS


def refuse_altered_modules(model: nn.Module) -> None:
    """Raise if a module may do something else than its class says; all are named.

    Args:
        model: The model whose layers are read by their classes.

    Raises:
        UnsupportedLayerError: For hooks and replaced methods.
    """
    names = [
        f"`{name or 'model'}` ({type(module).__name__}: {reason})"
        for name, module in model.named_modules()
        if (reason := alteration(module)) is not None and not _is_parametrization(name)
    ]
    if any(_changing(hooks) for hooks in _global_hooks()):
        names.append("hooks for all modules of PyTorch")
    if names:
        raise UnsupportedLayerError(
            f"Expected modules that do what their classes say, but got {'; '.join(names)}. Remove "
            "the hooks, or write what they do into a `forward` of your own; for weights use "
            "torch.nn.utils.parametrizations."
        )


def alteration(module: nn.Module) -> str | None:
    """Why a module may do something else than its class says; None if it does not.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> _ = layer.register_forward_hook(lambda module, inputs, output: 2 * output)
        >>> alteration(layer)
        'has hooks that may change it'
    """
    own, kind = vars(module), type(module)
    if not _METHODS.isdisjoint(own) and "_orig_mod" not in own["_modules"]:  # not torch.compile's
        return "its `forward` was replaced"
    if kind.__module__.startswith("torch.nn"):
        made_by = getattr(kind.forward, "__module__", None) or ""
        if not made_by.startswith("torch"):
            return "the `forward` of its class was replaced"
    if any(own[name] and _changing(own[name]) for name in _HOOKS):
        return "has hooks that may change it"
    return None


_METHODS = frozenset({"forward", "_conv_forward", "_call_impl"})


_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


def _changing(hooks: Mapping[Any, Any]) -> bool:
    """Whether there are hooks other than those of `record_outputs`, which only look."""
    return any(not getattr(hook, "only_records", False) for hook in hooks.values())


def _global_hooks() -> list[Mapping[Any, Any]]:
    home = nn.modules.module
    return [getattr(home, f"_global{name}", {}) for name in _HOOKS]


def _is_parametrization(name: str) -> bool:
    return "parametrizations" in name.split(".")  # PyTorch runs these with their hooks
