"""One differentiable pass of a model over a batch: what loss terms and metrics see."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from rightreasons.core.model_modes import depends_on_mode, test_time_mode
from rightreasons.core.recording import record_outputs
from rightreasons.core.second_order import (
    innermost,
    out_of_place,
    refuse_dead_ends,
    translate_autograd_errors,
    twice_differentiable,
)
from rightreasons.errors import DoubleBackwardError, InvalidBatchError
from rightreasons.probe.masked import Entry, FoldedEntry, MaskedFeatures, ScatteredEntry, fold_of
from rightreasons.types import Batch, Target

__all__ = ["Need", "Probe", "move_to_model", "strongest_need"]

Need = bool | Literal["inside"]
"""Which gradients are read: all, those inside the masks, or none."""
Kept = TypeVar("Kept")


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
        needs_gradient: Whether `gradient` will be asked for, or ``"inside"`` if `inside` alone
            will, which is several times cheaper in nets that begin with a linear layer; a pass
            without gradients is cheapest.
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
        needs_gradient: Need = False,
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
        self.depends_on_mode = depends_on_mode(innermost(model))
        self._kept: dict[Hashable, Any] = {}
        folds = needs_gradient == "inside" and batch.mask is not None and not batch.x.requires_grad
        self._fold = fold_of(innermost(model), batch.x) if folds else None
        self._entered: dict[str, Tensor] = {}
        self._masked: MaskedFeatures | None = None
        self.features = batch.x if self._fold is not None else self._differentiable(batch.x)
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
            if not self.features.requires_grad:
                raise DoubleBackwardError(
                    "Expected a probe made with `needs_gradient=True` before asking for gradients. "
                    "A term or metric that reads `probe.gradient` sets `needs_gradient = True`."
                )
            self._gradients[target] = self._gradient_at(self.features, target)
        return self._gradients[target]

    @property
    def masked(self) -> MaskedFeatures:
        """The model as a function of the features that masks touch; made once."""
        if self._masked is None:
            mask = self.mask
            full = self.features.shape[1:]
            touched = (mask != 0).any(dim=0).expand(full).flatten().nonzero().flatten()
            entry: Entry
            if self._fold is not None:
                entered = self._entered[self._fold.name]
                values = self.features.flatten(1).index_select(1, touched)
                entry = FoldedEntry(
                    fold=self._fold, entered=entered, values=values, columns=touched
                )
            else:
                core = innermost(self.model)
                entry = ScatteredEntry(model=core, features=self.features, columns=touched)
            self._masked = MaskedFeatures(
                entry=entry,
                model=innermost(self.model),
                mask=mask.expand(-1, *full).flatten(1).index_select(1, touched),
                y=self.batch.y,
                nominal=self._gradient_at_entry,
                max_rows=self.max_rows,
            )
        return self._masked

    def once(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """What ``make`` gives, made once for this pass: terms that use the same key share it."""
        if key not in self._kept:
            self._kept[key] = make()
        kept: Kept = self._kept[key]
        return kept

    @classmethod
    def at_test_time(cls, model: nn.Module, batch: Batch, **settings: Any) -> Probe:
        """Probe the model as it will be deployed, whatever mode it is in, and leave it there.

        BatchNorm statistics are used and not updated, nothing is dropped. Takes the settings of
        the constructor.
        """
        core = innermost(model)
        with test_time_mode(core):
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
        core = innermost(self.model)
        recorded = record_outputs(core, self.layers, self.activations)
        first = [self._fold.name] if self._fold else []
        entered = record_outputs(core, first, self._entered, differentiable=True)
        version = None if self.features.is_inference() else self.features._version
        with wanted, translate_autograd_errors(), safe, apart, recorded, entered:
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

    def _gradient_at_entry(self, target: Target) -> Tensor:
        if self._fold is None:
            return self.gradient(target)
        return self._gradient_at(self._entered[self._fold.name], target)

    def _gradient_at(self, point: Tensor, target: Target) -> Tensor:
        if not self.logits.requires_grad:
            raise DoubleBackwardError(
                "Expected logits that depend on the input, but the model cuts the graph. Remove "
                "`detach()`, `torch.no_grad()` or `torch.inference_mode()` from its forward."
            )
        with translate_autograd_errors(), torch.enable_grad():
            value = target(self.logits, self.batch.y).sum()
            (gradient,) = torch.autograd.grad(
                value, point, create_graph=self.create_graph, retain_graph=True
            )
        if self.create_graph:
            refuse_dead_ends(gradient)
        return gradient


def strongest_need(needs: Iterable[Need]) -> Need:
    """The need that covers all of them.

    Example:
        >>> strongest_need([False, "inside"])
        'inside'
    """
    given = set(needs)
    return True if True in given else "inside" if "inside" in given else False


def move_to_model(batch: Batch, model: nn.Module) -> Batch:
    """The batch on the device of the model's parameters and in their precision."""
    floating = (weight for weight in model.parameters() if weight.is_floating_point())
    first = next(floating, None)
    return batch if first is None else batch.to(first.device, first.dtype)
