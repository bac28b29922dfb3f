"""Models that cannot be differentiated twice: mended where possible, refused with a remedy."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from rightreasons.errors import DoubleBackwardError

__all__ = [
    "innermost",
    "out_of_place",
    "refuse_dead_ends",
    "refuse_wrappers",
    "translate_autograd_errors",
    "twice_differentiable",
]

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
                "FSDP, which cannot. Use DistributedDataParallel."
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
    """Let activations with an ``inplace`` flag work out of place, and as before afterwards.

    In place they overwrite what is differentiated or recorded.
    """
    in_place = [module for module in model.modules() if getattr(module, "inplace", False) is True]
    for module in in_place:
        module.inplace = False  # type: ignore[assignment]
    try:
        yield
    finally:
        for module in in_place:
            module.inplace = True  # type: ignore[assignment]
