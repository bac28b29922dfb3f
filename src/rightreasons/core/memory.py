"""The memory of passes: what one row costs, and how many rows fit a budget.

A stack of altered copies has as many rows as memory allows, without a setting. The budget of a pass
that measures is a quarter of what is free, and 512 MiB at most on a processor, where larger passes
are not faster. The budget of a training step is a quarter of all memory. It does not depend on what
else runs, so that a resumed training makes the same passes.

The number of rows is a power of two. It changes results by rounding alone. Wherever 2 GiB are free
on a processor, measuring makes the same passes, so that its results have the same bits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from rightreasons.core.model_modes import (
    innermost,
    statistics_of,
    test_time_mode,
    with_statistics,
)

__all__ = [
    "Work",
    "budget_of",
    "call_in_parts",
    "pass_bytes",
    "recompute_in_backward",
    "rows_within_budget",
    "rows_within_cache",
]

Work = Literal["values", "gradients", "second_order", "bounds"]
"""What a pass keeps: nothing, the graph of one backward pass, that of two, or bounds."""

LARGEST_PASS = 2**29
"""Bytes of the largest pass that measures, on a processor."""
SHARE = 4
"""A pass takes one part in so many of the memory."""
CACHED = 2**23
"""Bytes of an activation that a processor's cache holds, beside some others."""
_SMALL = 2**18  # a net rarely keeps more than 1,024 times its input: such a pass needs no measuring
_UNKNOWN = 4 * LARGEST_PASS
_WORKSPACE = 5  # a pass holds a few of the largest activations, for inputs, outputs and copies
_BOUNDS = 8  # centre and radius, upwards and downwards, of both


@dataclass(frozen=True)
class PassBytes:
    """The bytes of one sample in a pass.

    Args:
        graph: All tensors that the pass saves for its gradient, without parameters.
        largest: The largest of them.
    """

    graph: int
    largest: int

    def needed(self, work: Work) -> int:
        """The bytes that a row takes in a pass of this kind."""
        workspace = _WORKSPACE * self.largest
        return {
            "values": workspace,
            "gradients": self.graph + workspace,
            "second_order": 2 * (self.graph + workspace),
            "bounds": _BOUNDS * (self.graph + workspace),
        }[work]


_known: WeakKeyDictionary[nn.Module, dict[tuple[object, ...], PassBytes]] = WeakKeyDictionary()


def rows_within_budget(
    model: nn.Module,
    x: Tensor,
    work: Work,
    *,
    ceiling: int,
    in_training: bool = False,
    inputs: Mapping[str, Tensor] | None = None,
) -> int:
    """The most rows of a pass that fits the budget: ``ceiling``, or a power of two below it.

    Args:
        model: The model that makes the pass.
        x: Samples, ``(N, *S)``; the first one is passed once to learn the layers' sizes, unless
            the model is known or the rows are small.
        work: What the pass keeps.
        ceiling: The most rows that are wanted.
        in_training: Whether the pass belongs to a training step.
        inputs: What else the model takes, see `Batch`.

    Example:
        >>> rows_within_budget(nn.Linear(3, 2), torch.zeros(8, 3), "values", ceiling=500)
        500
    """
    few = x.is_floating_point() and ceiling * x[:1].nbytes <= _SMALL
    if few or ceiling <= 1 or not len(x):
        return max(1, ceiling)
    needed = pass_bytes(model, x, inputs).needed(work) + 2 * x[0].nbytes
    fitting = max(1, budget_of(x.device, in_training=in_training) // needed)
    return ceiling if ceiling <= fitting else 1 << fitting.bit_length() - 1


def rows_within_cache(
    model: nn.Module, x: Tensor, *, ceiling: int, inputs: Mapping[str, Tensor] | None = None
) -> int:
    """The most rows whose activations stay in a processor's cache, a power of two below `ceiling`.

    Larger passes wait for memory in every layer that only adds or multiplies.

    Args:
        model: The model that makes the pass.
        x: Samples, ``(N, *S)``; the first one is passed once, unless the model is known.
        ceiling: The most rows that are wanted; the result on devices other than a processor.
        inputs: What else the model takes, see `Batch`.

    Example:
        >>> rows_within_cache(nn.Linear(3, 2), torch.zeros(8, 3), ceiling=8)
        8
    """
    if x.device.type != "cpu" or ceiling <= 1 or not len(x):
        return max(1, ceiling)
    fitting = max(1, CACHED // max(1, pass_bytes(model, x, inputs).largest))
    return ceiling if ceiling <= fitting else 1 << fitting.bit_length() - 1


def pass_bytes(
    model: nn.Module, x: Tensor, inputs: Mapping[str, Tensor] | None = None
) -> PassBytes:
    """The memory of one sample in a pass of ``model``, as at test time; measured once a shape."""
    core = innermost(model)
    sizes = _known.setdefault(core, {})
    key = (tuple(x.shape[1:]), x.dtype, x.device)
    if key not in sizes:
        first = {name: one[:1] for name, one in (inputs or {}).items()}
        sizes[key] = _measure(core, x[:1].detach().clone(), first)
    return sizes[key]


def _measure(model: nn.Module, x: Tensor, inputs: Mapping[str, Tensor]) -> PassBytes:
    owned = {one.untyped_storage().data_ptr() for one in (*model.parameters(), *model.buffers())}
    saved: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in owned:  # a view of a parameter is the parameter's
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    devices = [x.device] if x.device.type == "cuda" else []
    # A model that cannot do the pass says so when it is asked for it, with a remedy.
    with suppress(Exception), torch.random.fork_rng(devices):
        with test_time_mode(model), torch.enable_grad(), hooks:
            # The graph lives as long as memory is counted: no address serves two tensors.
            graph = model(x.requires_grad_() if x.is_floating_point() else x, **inputs)
        del graph
    sizes = [*saved.values(), x.nbytes]
    return PassBytes(sum(sizes), max(sizes))


def budget_of(device: torch.device, *, in_training: bool = False) -> int:
    """The bytes that one pass may take on a device.

    Args:
        device: Where the pass runs.
        in_training: Whether the pass belongs to a training step.
    """
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return int(total if in_training else free) // SHARE
    if device.type != "cpu":
        return LARGEST_PASS
    if in_training:
        return _total_memory() // SHARE
    return min(LARGEST_PASS, _free_memory() // SHARE)


def _total_memory() -> int:
    total = _UNKNOWN
    with suppress(AttributeError, OSError, ValueError):  # another system has no such name
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *(limit for limit, _ in _container_limits())])


def _free_memory() -> int:
    free = _UNKNOWN
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = 1024 * int(next(one for one in lines if one.startswith("MemAvailable")).split()[1])
    return max(0, min([free, *(limit - used for limit, used in _container_limits())]))


def _container_limits() -> list[tuple[int, int]]:
    """The limit of a container and what is used of it, without files that can be forgotten."""
    folder, limits = Path("/sys/fs/cgroup"), []
    for of_limit, of_use, reclaimable in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
    ):
        with suppress(OSError, ValueError):  # no container, or no limit: "max"
            limit = int((folder / of_limit).read_text())
            used = int((folder / of_use).read_text())
            statistics = (folder / of_limit).with_name("memory.stat").read_text().split()
            pairs = dict(zip(statistics[::2], statistics[1::2], strict=False))
            limits.append((limit, used - int(pairs.get(reclaimable, 0))))
    return limits


def call_in_parts(
    function: Callable[[Tensor, Tensor], Tensor],
    model: nn.Module,
    x: Tensor,
    *,
    most: int,
    create_graph: bool,
    known: Tensor | None = None,
) -> Tensor:
    """Call a function of rows on so many rows at a time, and join the results.

    Args:
        function: Maps rows of ``x`` and their numbers to ``(rows, ...)``; it runs the model.
        model: The model, whose parameters get gradients.
        x: The rows, ``(R, *S)``.
        most: The most rows of a call.
        create_graph: Whether gradients of the result must reach ``x`` and the weights. Where one
            call does not do, the graph of each is built again when it is differentiated.
        known: The results, if they are known. The function is then called only to differentiate.
    """
    values = []
    with torch.set_grad_enabled(torch.is_grad_enabled() and create_graph):
        for rows in torch.split(torch.arange(len(x), device=x.device), most):
            if not create_graph:
                values.append(function(x[rows], rows).detach())
            elif known is not None:
                value = known[rows]
                values.append(recompute_in_backward(function, model, x[rows], rows, value=value))
            elif len(rows) == len(x):
                values.append(function(x, rows))
            else:
                values.append(recompute_in_backward(function, model, x[rows], rows))
    return torch.cat(values)


def recompute_in_backward(
    function: Callable[..., Tensor],
    model: nn.Module,
    x: Tensor,
    *others: Tensor,
    value: Tensor | None = None,
) -> Tensor:
    """Give ``function(x, *others)``, whose graph is built when the result is differentiated.

    Several such results hold one graph at a time, at the cost of a second call of ``function``.
    A result can be differentiated once, for ``x`` and the parameters of ``model``.

    Args:
        function: Runs the model, as at test time, and may take gradients itself.
        model: The model whose parameters get gradients.
        x: What the function is called with; may carry a graph.
        others: What else it is called with; gets no gradient.
        value: The result, if it is known; None calls the function.

    Example:
        >>> net, x = nn.Linear(2, 1), torch.ones(3, 2)
        >>> recompute_in_backward(lambda x: net(x).square(), net, x).sum().backward()
        >>> net.weight.grad.shape
        torch.Size([1, 2])
    """
    core = innermost(model)
    parameters = [weight for weight in core.parameters() if weight.requires_grad]
    repeat = _Repeat(function, others, core, x.device.type)
    result: Tensor = _Recomputed.apply(repeat, value, x, *parameters)  # type: ignore[no-untyped-call]
    return result


class _Repeat:
    """A function that is called twice in the same surroundings."""

    def __init__(
        self,
        function: Callable[..., Tensor],
        others: tuple[Tensor, ...],
        model: nn.Module,
        device: str,
    ) -> None:
        self.function, self.others = function, others
        self.statistics = statistics_of(model)
        self.device = device
        self.autocast: dict[str, Any] = {
            "enabled": torch.is_autocast_enabled(device),
            "dtype": torch.get_autocast_dtype(device),
        }

    def __call__(self, x: Tensor) -> Tensor:
        with (
            torch.enable_grad(),
            with_statistics(self.statistics),
            torch.autocast(self.device, **self.autocast),
        ):
            return self.function(x, *self.others)


class _Recomputed(torch.autograd.Function):
    """The value of a function now, and its gradients from a second call."""

    @staticmethod
    def forward(
        ctx: Any, repeat: _Repeat, value: Tensor | None, x: Tensor, *parameters: Tensor
    ) -> Tensor:
        ctx.repeat, ctx.x, ctx.parameters = repeat, x.detach(), parameters
        return repeat(ctx.x).detach() if value is None else value.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        needs_x, *_ = ctx.needs_input_grad[2:]
        x = ctx.x.detach().requires_grad_(needs_x)
        value = ctx.repeat(x)
        inputs = [x, *ctx.parameters] if needs_x else [*ctx.parameters]
        if not value.requires_grad:
            return (None,) * (3 + len(ctx.parameters))
        found = torch.autograd.grad(value, inputs, gradient, allow_unused=True)
        return (None, None, *found) if needs_x else (None, None, None, *found)
