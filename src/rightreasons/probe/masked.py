"""The model as a function of its masked features alone.

`MaskedFeatures` moves, differentiates and bounds the features that masks touch. A `FeatureAdapter`
brings their values into the net.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn

from rightreasons.bounds import Box, gradient_box, output_box
from rightreasons.bounds.box import full_precision
from rightreasons.core.convolutions import constant_weights
from rightreasons.core.memory import Work
from rightreasons.core.model_modes import (
    out_of_place,
    test_time_mode,
    translate_autograd_errors,
    twice_differentiable,
)
from rightreasons.errors import InvalidSettingError
from rightreasons.probe.adapters import FeatureAdapter
from rightreasons.probe.embeddings import find_embedding, rows_for_batch
from rightreasons.types import Batch, Interval, Target

__all__ = ["MaskedFeatures", "Point"]


class MaskedFeatures:
    r"""The features that masks touch: their values, their gradient, and the model as they move.

    A sample has ``D`` features. The ``M`` features that the mask of *any* sample of the batch
    touches are columns of ``(N, M)``; the others never move. Where the first layer is affine, the
    others are folded into a constant once. Moving, differentiating and bounding then cost products
    with ``M`` columns instead of ``D``. Elsewhere the values are put back into the input. Both ways
    give the same numbers within rounding.

    Args:
        adapter: Brings the values into the net, and gradients back.
        model: The whole model, whose mode is switched.
        batch: The samples.
        mask: The mask at the columns, ``(N, M)``.
        y: Labels ``(N,)``.
        nominal_gradient: Gives the gradient of a target for the samples themselves, with its graph
            if training needs it: behind the first layer of a split net, else at the features.
        max_rows: The most rows of a stacked pass; None leaves them to a memory budget.
        in_training: Whether the passes belong to a training step.
    """

    def __init__(
        self,
        *,
        adapter: FeatureAdapter,
        model: nn.Module,
        batch: Batch,
        mask: Tensor,
        y: Tensor,
        nominal_gradient: Callable[[Target], Tensor],
        max_rows: int | None,
        in_training: bool,
    ) -> None:
        self.mask = mask
        self.y = y
        self.max_rows = max_rows
        self._in_training = in_training
        self._adapter = adapter
        self._model = model
        self._batch = batch
        self._nominal_gradient = nominal_gradient
        self._gradients: dict[Target, Tensor] = {}

    @property
    def values(self) -> Tensor:
        """The features themselves, ``(N, M)``."""
        return self._adapter.values

    @property
    def columns(self) -> Tensor:
        """The indices of the masked features among the flattened ones, ``(M,)``."""
        return self._adapter.columns

    def gradient(self, target: Target | str = Target.LOSS) -> Tensor:
        """The gradient of ``target`` at the samples, ``(N, M)``; computed once.

        Where a sample's own mask is 0, it may be 0 too, since windows around the masks are carried
        back alone.
        """
        target = Target(target)
        if target not in self._gradients:
            known = self._nominal_gradient(target)
            self._gradients[target] = self._adapter.nominal_gradient(known)
        return self._gradients[target]

    def box(
        self, epsilon: float | None, valid_range: tuple[float, float] | None = None
    ) -> Interval:
        r"""Where the masked features may move: :math:`x \pm \epsilon m`, within the valid range.

        Args:
            epsilon: Radius in input units. None allows every valid value and needs a range; where
                the mask is soft, the feature moves by that fraction of the way.
            valid_range: The smallest and largest value of a feature; None is no limit. A feature
                outside the range may keep its value.
        """
        values, mask = self.values.detach(), self.mask
        if epsilon is None:
            ends = [torch.full_like(values, end) for end in _check_given(valid_range)]
            lower, upper = (torch.lerp(values, end, mask) for end in ends)
            return Interval(torch.minimum(lower, values), torch.maximum(upper, values))
        reach = epsilon * mask
        lower, upper = values - reach, values + reach
        if valid_range is not None:
            lower = torch.minimum(lower.clamp(min=valid_range[0]), values)
            upper = torch.maximum(upper.clamp(max=valid_range[1]), values)
        return Interval(lower, upper)

    def substitute_box(self, tokens: Sequence[int]) -> Interval:
        """Where embeddings may move if masked tokens become any of ``tokens``, or stay.

        Args:
            tokens: Token ids, at least one. Where the mask is soft, an embedding moves by that
                fraction of the way.
        """
        table = find_embedding(self._model, self._batch).weight
        known = table[torch.as_tensor(tokens, device=table.device)]  # (S, E)
        values, mask = self.values, self.mask
        ends = [end.repeat(values.shape[1] // len(end)) for end in (known.amin(0), known.amax(0))]
        lower, upper = (torch.lerp(values, end.expand_as(values), mask) for end in ends)
        return Interval(torch.minimum(lower, values), torch.maximum(upper, values))

    def at(self, values: Tensor, *, reach_weights: bool = False) -> Point:
        """Run the model at other values of the masked features, as at test time.

        Args:
            values: ``(N, M)``, or ``(K * N, M)``, copy after copy; may carry a graph.
            reach_weights: Whether gradients of the results must reach the weights.
        """
        y = self.y if len(values) == len(self.y) else self.y.repeat(len(values) // len(self.y))
        weights = nullcontext() if reach_weights else constant_weights()
        with self._test_time(), torch.enable_grad():
            net_input = self._adapter.net_input(values, detached=not reach_weights)
            if not net_input.requires_grad:
                net_input.requires_grad_()
            with weights:
                logits = self._adapter.net(net_input)
        return Point(self._adapter, net_input, logits, y, detached=not reach_weights)

    def rows_for(self, work: Work, ceiling: int) -> int:
        """The most rows of one pass, see `Probe.rows_for`."""
        if self.max_rows is not None:
            return self.max_rows
        model, batch, in_training = self._model, self._batch, self._in_training
        return rows_for_batch(model, batch, work, ceiling=ceiling, in_training=in_training)

    def output_box(self, interval: Interval) -> Box:
        """Bounds of the logits over values in ``interval``."""
        with self._test_time(), full_precision(interval.lower):
            return output_box(self._adapter.net, self._adapter.net_input_box(interval))

    def gradient_box(self, interval: Interval, target: Target) -> tuple[Box, Box]:
        """Bounds of the logits, and of the gradient ``(N, M)``, over values in ``interval``."""
        with self._test_time(), full_precision(interval.lower):
            net_input = self._adapter.net_input_box(interval)
            logits, gradient = gradient_box(self._adapter.net, net_input, self.y, target=target)
            return logits, self._adapter.feature_gradient_box(gradient)

    @contextmanager
    def _test_time(self) -> Iterator[None]:
        model = self._model
        with (
            translate_autograd_errors(),
            test_time_mode(model),
            twice_differentiable(model),
            out_of_place(model),
        ):
            yield


class Point:
    """The model at some values of the masked features.

    Args:
        adapter: Brought the values into the net.
        net_input: The net's input that it computed from them.
        logits: The net's output.
        y: The labels.
        detached: Whether gradients leave the weights' graph out.
    """

    def __init__(
        self,
        adapter: FeatureAdapter,
        net_input: Tensor,
        logits: Tensor,
        y: Tensor,
        *,
        detached: bool,
    ) -> None:
        self.logits = logits
        self.y = y
        self._adapter = adapter
        self._net_input = net_input
        self._detached = detached

    def gradient(self, target: Target, *, create_graph: bool = False) -> Tensor:
        """The gradient of ``target`` for each row, ``(rows, M)``."""
        with translate_autograd_errors(), torch.enable_grad():
            value = target(self.logits, self.y).sum()
            (gradient,) = torch.autograd.grad(value, self._net_input, create_graph=create_graph)
        return self._adapter.feature_gradient(gradient, detached=self._detached)


def _check_given(valid_range: tuple[float, float] | None) -> tuple[float, float]:
    if valid_range is None:
        raise InvalidSettingError(
            "Expected a `valid_range` for features that may take every valid value, but got None. "
            "Give the smallest and largest value, such as (0.0, 1.0), or an `epsilon`."
        )
    return valid_range
