"""One differentiable pass of a model over a batch: what loss terms and metrics see."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from rightreasons.double_backward import (
    explained,
    innermost,
    out_of_place,
    refuse_dead_ends,
    twice_differentiable,
)
from rightreasons.errors import DoubleBackwardError, InvalidBatchError, UnknownNameError
from rightreasons.target import Target
from rightreasons.types import Batch

__all__ = ["Probe", "depends_on_mode", "placed"]

_MODELESS = {
    *(nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.Identity, nn.Flatten, nn.Unflatten),
    *(nn.Linear, nn.Bilinear, nn.Embedding, nn.LayerNorm, nn.GroupNorm),
    *(nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d),
    *(nn.MaxPool1d, nn.MaxPool2d, nn.AvgPool1d, nn.AvgPool2d, nn.ZeroPad2d, nn.Upsample),
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d),
    *(nn.ReLU, nn.LeakyReLU, nn.ELU, nn.SELU, nn.GELU, nn.SiLU, nn.Softplus, nn.Sigmoid, nn.Tanh),
}


class Probe:
    r"""A model at a batch: features, logits, activations and per-sample gradients.

    The pass is made once, in the mode the model is in, and everything read off it is shared.
    Per-sample means per-sample: ``gradient(t)[n]`` is :math:`\nabla_{x_n} \sum_j t(x_j)`, which is
    :math:`\nabla_{x_n} t(x_n)` and never divided by the batch size. Only BatchNorm in train mode
    mixes samples, so that there the sum also holds the pull of ``x_n`` on the others through the
    batch statistics; `at_test_time` makes the pass with statistics (and dropout) as at test time.

    Args:
        model: Gives logits ``(N, K)``.
        batch: The samples.
        needs_gradient: Whether `gradient` will be asked for; a pass without is cheaper.
        create_graph: Whether gradients must reach the weights (training) or not (measuring).
        layers: Names of submodules whose outputs `activations` should hold.
        max_rows: The most rows one stacked pass of `each_at` may have; None is no ceiling.

    Example:
        >>> model = nn.Linear(3, 2)
        >>> batch = Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1]))
        >>> probe = Probe(model, batch, needs_gradient=True)
        >>> probe.logits.shape, probe.gradient("logit").shape
        (torch.Size([4, 2]), torch.Size([4, 3]))
    """

    def __init__(
        self,
        model: nn.Module,
        batch: Batch,
        *,
        needs_gradient: bool = False,
        create_graph: bool = True,
        layers: Sequence[str] = (),
        max_rows: int | None = None,
    ) -> None:
        self.model = model
        self.batch = batch
        self.needs_gradient = needs_gradient
        self.create_graph = create_graph
        self.layers = tuple(layers)
        self.max_rows = max_rows
        self.activations: dict[str, Tensor] = {}
        self.features = self._differentiable(batch.x)
        self.logits = self._forward()
        self._gradients: dict[Target, Tensor] = {}

    @property
    def mask(self) -> Tensor:
        """The batch's mask, with the axes of `features`; an error if it has none."""
        mask = self.batch.mask
        if mask is None:
            raise InvalidBatchError(
                "Expected a batch with a `mask` (1 where the model must not look), but got none. "
                "Use data with masks, or a method without."
            )
        return mask.reshape(mask.shape + (1,) * (self.features.ndim - mask.ndim))

    def gradient(self, target: Target | str = Target.LOSS) -> Tensor:
        """The gradient of ``target`` for each sample, shaped as `features`; kept once taken."""
        target = Target(target)
        if target not in self._gradients:
            self._gradients[target] = self._take_gradient(target)
        return self._gradients[target]

    @classmethod
    def at_test_time(cls, model: nn.Module, batch: Batch, **settings: Any) -> Probe:
        """Probe the model as it will be deployed, whatever mode it is in, and leave it there.

        BatchNorm statistics are used and not updated, nothing is dropped. Takes the settings of
        the constructor.
        """
        core = innermost(model)
        with _test_time(core):
            return cls(core, batch, **settings)

    def at(self, features: Tensor, *, create_graph: bool | None = None) -> Probe:
        """The same model at other features, as at test time.

        BatchNorm statistics are used and not updated, nothing is dropped, no ``.grad`` is touched.

        Args:
            features: ``(N, *S)``, or ``(K * N, *S)`` for K stacked copies, copy after copy. They
                may carry a graph of their own.
            create_graph: As for the probe; the same as here if None.
        """
        copies, rest = divmod(features.shape[0], len(self.batch))
        if rest or not copies:
            raise InvalidBatchError(
                f"Expected features for a multiple of {len(self.batch)} samples, but got "
                f"{features.shape[0]}."
            )
        batch = self.batch if copies == 1 else self.batch.repeat(copies)
        create_graph = self.create_graph if create_graph is None else create_graph
        return self._at(features, batch, create_graph)

    def each_at(
        self,
        copies: Tensor,
        function: Callable[[Probe], Tensor],
        *,
        create_graph: bool = False,
    ) -> Tensor:
        """Evaluate ``function`` at K altered copies of the features, stacked and not looped.

        Args:
            copies: ``(K, N, *S)``.
            function: Takes a probe of some rows and gives ``(rows, ...)``.
            create_graph: Whether the result must reach the weights. Then the ceiling `max_rows`
                saves no memory, since every graph is kept.

        Returns:
            ``(K, N, ...)``.
        """
        num_copies, size = copies.shape[:2]
        stacked = copies.flatten(0, 1)
        samples = torch.arange(size, device=copies.device).repeat(num_copies)
        step = self.max_rows or len(stacked)
        values = []
        with torch.set_grad_enabled(torch.is_grad_enabled() and create_graph):
            for rows in (slice(first, first + step) for first in range(0, len(stacked), step)):
                value = function(self._at(stacked[rows], self.batch[samples[rows]], create_graph))
                values.append(value if create_graph else value.detach())
        joined = torch.cat(values)
        return joined.reshape(num_copies, size, *joined.shape[1:])

    def _at(self, features: Tensor, batch: Batch, create_graph: bool) -> Probe:
        parts = {"y": batch.y, "mask": batch.mask, "annotated": batch.annotated}
        more = {"group": batch.group, "index": batch.index}
        return Probe.at_test_time(
            self.model,
            Batch.trusted(x=features, **parts, **more),
            needs_gradient=self.needs_gradient,
            create_graph=create_graph,
            layers=self.layers,
            max_rows=self.max_rows,
        )

    def _differentiable(self, x: Tensor) -> Tensor:
        if not self.needs_gradient or x.requires_grad:
            return x
        if not x.is_floating_point():
            raise InvalidBatchError(
                f"Expected floating point `x` to differentiate, but got {x.dtype}. Token ids have "
                "no gradient: give the model their embeddings."
            )
        return x.detach().requires_grad_()

    def _forward(self) -> Tensor:
        twice = self.needs_gradient and self.create_graph
        wanted = torch.enable_grad() if self.needs_gradient else nullcontext()
        safe = twice_differentiable(self.model) if twice else nullcontext()
        apart = out_of_place(self.model) if self.needs_gradient or self.layers else nullcontext()
        recorded = _recorded(innermost(self.model), self.layers, self.activations)
        version = None if self.features.is_inference() else self.features._version
        with wanted, explained(), safe, apart, recorded:
            logits = self.model(self.features)
        if version is not None and self.features._version != version:
            raise InvalidBatchError(
                "Expected a model that leaves its input alone, but it changes it in place. Begin "
                "its forward with `x = x.clone()`."
            )
        if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != len(self.batch):
            got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise InvalidBatchError(
                f"Expected the model to give logits of shape ({len(self.batch)}, classes), but got "
                f"{got}. A binary model needs two outputs; a model that returns an object needs "
                "a small wrapper that returns its logits."
            )
        y = self.batch.y
        if y.device.type == "cpu" and len(y) and int(y.max()) >= logits.shape[1]:
            raise InvalidBatchError(
                f"Expected labels from 0 to {logits.shape[1] - 1}, for the {logits.shape[1]} "
                f"outputs of the model, but got {int(y.max())}."
            )
        return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits

    def _take_gradient(self, target: Target) -> Tensor:
        if not self.features.requires_grad:
            raise DoubleBackwardError(
                "Expected a probe made with `needs_gradient=True` before asking for gradients. A "
                "term or metric that reads `probe.gradient` sets `needs_gradient = True`."
            )
        if not self.logits.requires_grad:
            raise DoubleBackwardError(
                "Expected logits that depend on the input, but the model cuts the graph. Remove "
                "`detach()`, `torch.no_grad()` or `torch.inference_mode()` from its forward."
            )
        with explained(), torch.enable_grad():
            value = target(self.logits, self.batch.y).sum()
            (gradient,) = torch.autograd.grad(
                value, self.features, create_graph=self.create_graph, retain_graph=True
            )
        if self.create_graph:
            refuse_dead_ends(gradient)
        return gradient


def placed(batch: Batch, model: nn.Module) -> Batch:
    """The batch on the device of the model's parameters and in their precision."""
    floating = (weight for weight in model.parameters() if weight.is_floating_point())
    first = next(floating, None)
    return batch if first is None else batch.to(first.device, first.dtype)


def depends_on_mode(model: nn.Module) -> bool:
    """Whether a layer in train mode may mix samples or draw: BatchNorm, dropout and the like.

    Layers known not to are let off; a module of the user's own may do anything, so it counts.
    """
    return any(module.training and not _is_modeless(module) for module in model.modules())


def _is_modeless(module: nn.Module) -> bool:
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return bool(module.p == 0)
    if isinstance(module, nn.modules.instancenorm._InstanceNorm):
        return not module.track_running_stats
    return type(module) in _MODELESS


@contextmanager
def _test_time(model: nn.Module) -> Iterator[None]:
    training = [module for module in model.modules() if module.training]
    norms = [module for module in training if isinstance(module, nn.modules.batchnorm._NormBase)]
    buffers = [(norm, dict(norm._buffers)) for norm in norms]
    for module in training:
        module.training = False
    for norm, kept in buffers:
        # The graph keeps the statistics it saw; a later pass in train mode moves them in place.
        norm._buffers.update({n: b.clone() for n, b in kept.items() if b is not None})
    try:
        yield
    finally:
        for module in training:
            module.training = True
        for norm, kept in buffers:
            norm._buffers.update(kept)


@contextmanager
def _recorded(
    model: nn.Module, layers: Sequence[str], activations: dict[str, Tensor]
) -> Iterator[None]:
    modules = dict(model.named_modules()) if layers else {}
    for name in layers:
        if name not in modules:
            raise UnknownNameError("layer of the model", name, [key for key in modules if key])

    def record(name: str) -> Callable[[nn.Module, object, Tensor], None]:
        def hook(module: nn.Module, inputs: object, output: Tensor) -> None:
            del module, inputs
            activations[name] = output

        return hook

    hooks = [modules[name].register_forward_hook(record(name)) for name in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
