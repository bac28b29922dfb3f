"""Remember what layers give during a pass, by hooks that do not outlive it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from rightreasons.errors import UnknownNameError

__all__ = ["record_outputs"]


@contextmanager
def record_outputs(
    model: nn.Module,
    layers: Sequence[str],
    outputs: dict[str, Tensor],
    *,
    differentiable: bool = False,
) -> Iterator[None]:
    """Put what the named layers give into ``outputs`` while the context lasts.

    Args:
        model: Whose layers they are.
        layers: Names, as in ``named_modules``.
        outputs: Filled by name.
        differentiable: Let gradients be taken there also behind frozen weights.
    """
    modules = dict(model.named_modules()) if layers else {}
    for name in layers:
        if name not in modules:
            raise UnknownNameError("layer of the model", name, [key for key in modules if key])

    def record(name: str) -> Callable[[nn.Module, object, Tensor], None]:
        def hook(module: nn.Module, inputs: object, output: Tensor) -> None:
            del module, inputs
            if differentiable and torch.is_grad_enabled() and not output.requires_grad:
                output.requires_grad_()
            outputs[name] = output

        return hook

    hooks = [modules[name].register_forward_hook(record(name)) for name in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
