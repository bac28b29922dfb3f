"""One differentiable pass of a model over a batch: what loss terms and metrics see."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import replace
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from rightreasons.core.memory import Work, call_in_parts
from rightreasons.core.model_modes import (
    depends_on_mode,
    hold_model,
    innermost,
    out_of_place,
    record_outputs,
    test_time_mode,
    translate_autograd_errors,
    twice_differentiable,
)
from rightreasons.core.outputs import checked_logits
from rightreasons.core.tracing import split_at_first_layer
from rightreasons.errors import InvalidBatchError
from rightreasons.probe.adapters import create_adapter
from rightreasons.probe.embeddings import (
    EmbeddingOutput,
    call_model,
    feature_model,
    read_embeddings,
    rows_for_batch,
)
from rightreasons.probe.masked import MaskedFeatures
from rightreasons.probe.window import DifferentiablePass, find_trunk
from rightreasons.types import Batch, Target

__all__ = ["Need", "Probe", "move_to_model", "strongest_need"]

Need = bool | Literal["inside"]
"""Which gradients are read: all (True), those of masked features ("inside"), or none (False)."""
Result = TypeVar("Result")


class Probe:
    r"""A model at a batch: features, logits, activations and per-sample gradients.

    The pass is made once, in the mode the model is in, and everyone reads the same results. All
    attributes are read-only. Gradients are per sample: ``gradient(t)[n]`` is
    :math:`\nabla_{x_n} \sum_j t(x_j)`, which is :math:`\nabla_{x_n} t(x_n)` and never divided by
    the batch size. Only BatchNorm in train mode mixes samples: there ``x_n`` also changes the
    other samples' targets through the batch statistics. `at_test_time` makes the pass with
    statistics (and dropout) as at test time.

    Args:
        model: Gives logits ``(N, K)``.
        batch: The samples.
        needs_gradient: Whether `gradient` will be read, or ``"inside"`` if only `masked` will be,
            which is several times cheaper in nets that begin with a linear layer. A pass without
            gradients is cheapest.
        create_graph: Whether gradients must reach the weights (training) or not (measuring).
        layers: Names of submodules whose outputs `activations` should hold.
        max_rows: The most rows of a stacked pass; None fits them into a memory budget, see
            `rows_for`.
        features: Other features of the samples; None takes ``batch.x``, or the embeddings of
            token ids.

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
        features: Tensor | None = None,
    ) -> None:
        self._is_text = not batch.x.is_floating_point()
        batch = batch if features is None or self._is_text else batch.with_(x=features)
        self._model, self._batch = model, batch
        self._needs_gradient = needs_gradient
        self._create_graph = create_graph
        self._layers = tuple(layers)
        self._max_rows = max_rows
        self._depends_on_mode = depends_on_mode(innermost(model))
        self._activations: dict[str, Tensor] = {}
        self._masked: MaskedFeatures | None = None
        self._results: dict[Hashable, Any] = {}
        # With a split net the gradient at the first layer's output is enough: the input needs none.
        splits = needs_gradient == "inside" and batch.mask is not None and not batch.x.requires_grad
        self._split = split_at_first_layer(innermost(model), batch.x) if splits else None
        later = splits and self._split is None
        trunk = find_trunk(innermost(model), batch.x, batch.mask) if later else None
        self._entry = trunk.names if trunk else (self._split.name,) if self._split else ()
        self._first_output: dict[str, Tensor] = {}
        self._embedded = EmbeddingOutput(needs_gradient=bool(needs_gradient))
        if not self._is_text:
            self._features = batch.x if self._entry else self._differentiable(batch.x)
        elif features is not None:
            self._embedded.given = self._differentiable(features)
            self._embedded.reach_weights = create_graph and not features.requires_grad
        logits = self._forward()
        first = self._first_output[self._entry[-1]] if self._entry else None
        self._pass = DifferentiablePass(logits, batch.y, self._features, first, create_graph)
        self._pass.trunk, self._pass.trunk_outputs = trunk, self._first_output

    @property
    def model(self) -> nn.Module:
        """The model."""
        return self._model

    @property
    def batch(self) -> Batch:
        """The samples."""
        return self._batch

    @property
    def features(self) -> Tensor:
        """The tensor that gets explained, ``(N, *S)``; for token ids their embeddings."""
        return self._features

    @property
    def logits(self) -> Tensor:
        """The model's output ``(N, K)``, at least in single precision."""
        return self._pass.logits

    @property
    def activations(self) -> Mapping[str, Tensor]:
        """The outputs of the layers that were asked for, by name."""
        return self._activations

    @property
    def needs_gradient(self) -> Need:
        """Which gradients may be read."""
        return self._needs_gradient

    @property
    def create_graph(self) -> bool:
        """Whether gradients reach the weights."""
        return self._create_graph

    @property
    def layers(self) -> tuple[str, ...]:
        """The names of the layers whose outputs `activations` holds."""
        return self._layers

    @property
    def max_rows(self) -> int | None:
        """The most rows of a stacked pass; None leaves them to a memory budget."""
        return self._max_rows

    def rows_for(self, work: Work, ceiling: int) -> int:
        """The most rows of one pass: `max_rows` if it is given, else what fits a memory budget.

        Args:
            work: What the pass keeps: ``"values"`` nothing, ``"gradients"`` the graph of one
                backward pass, ``"second_order"`` that of two.
            ceiling: The most rows that are wanted.
        """
        if self.max_rows is not None:
            return self.max_rows
        model, batch, in_training = self.model, self.batch, self.create_graph
        return rows_for_batch(model, batch, work, ceiling=ceiling, in_training=in_training)

    def without_graph(self) -> Probe:
        """The same pass for those who read no gradient; its own passes keep no graph either."""
        probe = copy(self)
        probe._masked, probe._results = None, {}
        probe._needs_gradient, probe._split, probe._first_output = False, None, {}
        probe._features = self._features.detach()
        logits = self.logits.detach()
        probe._pass = DifferentiablePass(
            logits, self.batch.y, probe._features, None, create_graph=False
        )
        probe.release_graph()
        return probe

    @property
    def depends_on_mode(self) -> bool:
        """Whether the pass would differ in the model's other mode."""
        return self._depends_on_mode

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
        """The gradient of ``target`` for each sample, shaped as `features`; computed once."""
        return self._pass.gradient(Target(target))

    @property
    def masked(self) -> MaskedFeatures:
        """The model as a function of the features that masks touch; made once."""
        if self._masked is None:
            mask, shape = self.mask, self.features.shape[1:]
            touched = (mask != 0).any(dim=0).expand(shape).flatten().nonzero().flatten()
            model, first_output = innermost(self.model), self._first_output
            net = feature_model(model, self.batch)
            self._masked = MaskedFeatures(
                adapter=create_adapter(net, self._split, first_output, self.features, touched),
                model=model,
                batch=self.batch,
                mask=mask.expand(-1, *shape).flatten(1).index_select(1, touched),
                y=self.batch.y,
                nominal_gradient=self._pass.gradient_at_net_input,
                max_rows=self.max_rows,
                in_training=self.create_graph,
            )
        return self._masked

    def once(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        """The result of ``compute``, once for this pass: terms with the same key share it."""
        if key not in self._results:
            self._results[key] = compute()
        result: Result = self._results[key]
        return result

    def release_graph(self) -> None:
        """Detach logits and activations, so that the pass's graph can be freed."""
        self._pass.logits = self._pass.logits.detach()
        self._activations = {name: one.detach() for name, one in self._activations.items()}

    def replace(
        self, *, y: Tensor | None = None, activations: dict[str, Tensor] | None = None
    ) -> Probe:
        """The same pass with other labels, or with other names of its activations.

        Args:
            y: The labels, ``(N,)``; None leaves them.
            activations: The activations by name; None leaves them.
        """
        probe = copy(self)
        probe._masked, probe._results = None, {}
        probe._batch = self._batch if y is None else self._batch.with_(y=y)
        probe._pass = replace(self._pass, y=probe._batch.y, gradients={})
        probe._activations = self._activations if activations is None else activations
        return probe

    @classmethod
    def at_test_time(cls, model: nn.Module, batch: Batch, **settings: Any) -> Probe:
        """Probe the model as at test time, whatever mode it is in; the mode is restored.

        BatchNorm statistics are used and not updated, nothing is dropped.

        Args:
            model: Gives logits ``(N, K)``.
            batch: The samples.
            **settings: Settings of the constructor.
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
            create_graph: Whether gradients must reach the weights; None keeps the probe's.
        """
        num_copies, remainder = divmod(features.shape[0], len(self.batch))
        if remainder or not num_copies:
            raise InvalidBatchError(
                f"Expected features for a multiple of {len(self.batch)} samples, but got "
                f"{features.shape[0]}."
            )
        batch = self.batch if num_copies == 1 else self.batch.repeat(num_copies)
        create_graph = self.create_graph if create_graph is None else create_graph
        settings = self._settings(create_graph, self.needs_gradient)
        return Probe.at_test_time(self.model, batch, features=features, **settings)

    def each_at(
        self,
        copies: Tensor,
        function: Callable[[Probe], Tensor],
        *,
        create_graph: bool = False,
        needs_gradient: Need | None = None,
    ) -> Tensor:
        """Evaluate ``function`` at K altered copies of the features in stacked passes.

        A pass has as many rows as `rows_for` allows.

        Args:
            copies: ``(K, N, *S)``.
            function: Maps a probe of some rows to ``(rows, ...)``.
            create_graph: Whether gradients of the result must reach the weights. Where one pass
                does not fit, the graph of each is then built again when it is differentiated.
            needs_gradient: Which gradients ``function`` reads; None keeps the probe's. False
                keeps no graph.

        Returns:
            ``(K, N, ...)``.
        """
        num_copies, size = copies.shape[:2]
        stacked = copies.flatten(0, 1)
        samples = torch.arange(size, device=copies.device).repeat(num_copies)
        need = self.needs_gradient if needs_gradient is None else needs_gradient
        work: Work = "second_order" if create_graph else "gradients" if need else "values"
        # A graph that is built again must not hold this pass, whose graph may be freed before.
        model, batch, settings = self.model, self.batch, self._settings(create_graph, need)

        def measure(features: Tensor, rows: Tensor) -> Tensor:
            some = batch[samples[rows]]
            return function(Probe.at_test_time(model, some, features=features, **settings))

        most = self.rows_for(work, len(stacked))
        values = call_in_parts(measure, model, stacked, most=most, create_graph=create_graph)
        return values.reshape(num_copies, size, *values.shape[1:])

    def _settings(self, create_graph: bool, needs_gradient: Need) -> dict[str, Any]:
        return {
            "needs_gradient": needs_gradient,
            "create_graph": create_graph,
            "layers": self._layers,
            "max_rows": self.max_rows,
        }

    def _differentiable(self, x: Tensor) -> Tensor:
        if not self.needs_gradient or x.requires_grad:
            return x
        return x.detach().requires_grad_()

    def _forward(self) -> Tensor:
        with ExitStack() as contexts:
            contexts.enter_context(hold_model(innermost(self.model)))
            if self.needs_gradient:
                contexts.enter_context(torch.enable_grad())
            contexts.enter_context(translate_autograd_errors())
            if self.needs_gradient and self.create_graph:
                contexts.enter_context(twice_differentiable(self.model))
            if self.needs_gradient or self._layers:  # no layer may overwrite a recorded one
                contexts.enter_context(out_of_place(self.model))
            core = innermost(self.model)
            contexts.enter_context(record_outputs(core, self._layers, self._activations))
            contexts.enter_context(
                record_outputs(core, self._entry, self._first_output, differentiable=True)
            )
            if self._is_text:
                contexts.enter_context(read_embeddings(core, self.batch, self._embedded))
            x = self.batch.x if self._is_text else self._features
            version = None if x.is_inference() else x._version
            logits = call_model(self.model, x, self.batch.inputs)
        if version is not None and x._version != version:
            raise InvalidBatchError(
                "Expected a model that leaves its input alone, but it changes it in place. Begin "
                "its forward with `x = x.clone()`."
            )
        if self._is_text:
            self._features = x if self._embedded.output is None else self._embedded.output
        # Logits in half precision are converted, which must not cut their graph.
        with torch.set_grad_enabled(torch.is_grad_enabled() or bool(self.needs_gradient)):
            return checked_logits(logits, self.batch.y, in_training=self.model.training)


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
    first = next((one for one in model.parameters() if one.is_floating_point()), None)
    return batch if first is None else batch.to(first.device, first.dtype)
