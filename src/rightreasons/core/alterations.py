"""What a module is beyond its class: hooks, replaced methods and attributes.

Rules and traces read a layer by its class. Hooks and replaced methods escape them and are refused;
attributes that change make what was traced before stale.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from rightreasons.errors import UnsupportedLayerError

__all__ = ["alteration", "refuse_altered_modules", "structure_of"]


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


def structure_of(model: nn.Module) -> tuple[Any, ...]:
    """All that a trace of a model may depend on, to compare with what it was before.

    These are the modules, their plain attributes, hooks and replaced methods, and the shapes of
    their tensors. Left out are values of tensors, train mode, and what code reads from elsewhere.

    Example:
        >>> model = nn.Sequential(nn.LeakyReLU(0.1))
        >>> before = structure_of(model)
        >>> model[0].negative_slope = 0.2
        >>> structure_of(model) == before
        False
    """
    return tuple(
        (name, type(module), _contents(_told_apart_by(module), _DEPTH))
        for name, module in model.named_modules(remove_duplicate=False)
    )


_DEPTH = 4  # attributes inside attributes that are compared
_INTERNALS = frozenset(vars(nn.Module()))
_BY_VALUE = (int, str, bytes, type(None), type, torch.dtype, torch.device)


def _told_apart_by(module: nn.Module) -> dict[str, Any]:
    """Attributes without those that every module has and that are empty here."""
    return {
        name: value
        for name, value in vars(module).items()
        if name not in _INTERNALS or (value and name not in ("training", "_modules"))
    }


def _contents(value: Any, depth: int) -> Any:
    """Something that is equal for equal contents, without a reference that keeps a model alive."""
    if isinstance(value, Tensor):
        return value.shape, value.dtype, value.device
    if isinstance(value, float):
        return repr(value)  # NaN equals itself in this form
    if isinstance(value, _BY_VALUE):
        return type(value), value
    if depth and isinstance(value, Mapping):
        return tuple((repr(key), _contents(part, depth - 1)) for key, part in value.items())
    if depth and isinstance(value, list | tuple | set | frozenset):
        return type(value), tuple(_contents(part, depth - 1) for part in value)
    is_own = not type(value).__module__.startswith(("torch", "builtins"))
    if depth and is_own and not isinstance(value, nn.Module):
        return id(value), _contents(getattr(value, "__dict__", {}), depth - 1)
    return type(value), id(value)
