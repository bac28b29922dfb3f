"""The model as a function of its masked features alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import getitem
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, fx, nn

from rightreasons.bounds import Box, gradient_box, output_box
from rightreasons.core.model_modes import test_time_mode
from rightreasons.core.second_order import (
    out_of_place,
    translate_autograd_errors,
    twice_differentiable,
)
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Interval, Target

__all__ = ["Entry", "Fold", "FoldedEntry", "MaskedFeatures", "Point", "ScatteredEntry", "fold_of"]


@dataclass(frozen=True)
class Fold:
    r"""A net as :math:`f(x) = h(W x + b)`: then a change of few features is a small product.

    With :math:`z = W x + b` known, :math:`f(x + \delta) = h(z + W_S \delta_S)` needs the columns S
    of W that :math:`\delta` touches, and :math:`\nabla_{x_S} t = W_S^\top \nabla_z t`.

    Args:
        name: Of the layer, in ``named_modules``.
        layer: The first layer; it sees the flattened input.
        tail: The rest, which shares its modules with the model.
    """

    name: str
    layer: nn.Linear
    tail: nn.Module


_RESHAPES = ("flatten", "view", "reshape", "size", getattr, getitem, torch.flatten, torch.reshape)

_known: WeakKeyDictionary[nn.Module, tuple[tuple[int, ...], Fold | None]] = WeakKeyDictionary()


def fold_of(model: nn.Module, x: Tensor) -> Fold | None:
    """The fold of ``model`` for inputs like ``x``, or None if its first layer is not linear.

    Found once for a model, and again if one of its modules is exchanged. A net that cannot be
    traced, or of which the two halves do not give what the whole gives, has none.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
        >>> fold_of(net, torch.rand(5, 1, 2, 2)).name
        '1'
    """
    signature = (*map(id, model.modules()), *x.shape[1:])
    if model not in _known or _known[model][0] != signature:
        _known[model] = (signature, _found(model, x))
    fold = _known[model][1]
    return None if fold is None or _is_watched(model) or _is_watched(fold.layer) else fold


def _is_watched(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def _found(model: nn.Module, x: Tensor) -> Fold | None:
    num_features = x[0].numel()
    first = (m for m in model.modules() if type(m) is nn.Linear and m.in_features == num_features)
    if not x.is_floating_point() or next(first, None) is None or not len(x):
        return None
    with test_time_mode(model):
        fold = _cut(model)
        return fold if fold is not None and _is_faithful(model, fold, x[:2]) else None


def _cut(model: nn.Module) -> Fold | None:
    """Trace the model and begin it after its first layer."""
    left = [(module, dict(module.__dict__)) for module in model.modules()]
    try:
        graph = fx.Tracer().trace(model)
    except Exception:  # a forward of the user's own may fail in any way when traced
        return None
    finally:
        for module, attributes in left:  # a forward that keeps something kept a proxy
            module.__dict__.clear()
            module.__dict__.update(attributes)
    modules = dict(model.named_modules())
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    calls = [node for node in graph.nodes if node.op == "call_module"]
    linear = [node for node in calls if type(modules[str(node.target)]) is nn.Linear]
    if len(inputs) != 1 or not linear:
        return None
    first = linear[0]
    before = list(graph.nodes)[: list(graph.nodes).index(first)]
    reshapes = all(_only_reshapes(node, modules) for node in before)
    if not reshapes or sum(node.target == first.target for node in calls) > 1:
        return None
    with graph.inserting_after(inputs[0]):
        entry = graph.placeholder("entry")
    first.replace_all_uses_with(entry)
    graph.erase_node(first)
    graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output"))
    if inputs[0].users:
        return None
    graph.erase_node(inputs[0])
    layer = modules[str(first.target)]
    if not isinstance(layer, nn.Linear):
        return None
    return Fold(str(first.target), layer, fx.GraphModule(model, graph))


def _only_reshapes(node: fx.Node, modules: dict[str, nn.Module]) -> bool:
    if node.op == "call_module":
        return type(modules[str(node.target)]) in (nn.Flatten, nn.Identity)
    return node.op == "placeholder" or node.target in _RESHAPES


def _is_faithful(model: nn.Module, fold: Fold, x: Tensor) -> bool:
    """Whether the halves give what the whole gives, for the first samples."""
    seen: list[Tensor] = []

    def remember(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        del module
        seen.extend((inputs[0], output))

    handle = fold.layer.register_forward_hook(remember)
    try:
        with torch.no_grad():
            whole = model(x)
            halves = fold.tail(seen[1]) if len(seen) == 2 else None
    finally:
        handle.remove()
    return (
        halves is not None
        and isinstance(whole, Tensor)
        and seen[0].shape == x.flatten(1).shape
        and torch.equal(seen[0], x.flatten(1))
        and torch.allclose(halves, whole)
    )


class Entry(ABC):
    """A net as a function of ``M`` of its features, ``(N, M)``, in two steps: entry, then net.

    Args:
        net: From the entry to the logits.
        values: Of the features, at the samples.
        columns: Which of the flattened features they are.
    """

    def __init__(self, *, net: nn.Module, values: Tensor, columns: Tensor) -> None:
        self.net = net
        self.values = values
        self.columns = columns

    @abstractmethod
    def enter(self, values: Tensor, *, detached: bool) -> Tensor:
        """What the net gets for ``values``, ``(N, M)`` or copies of it, copy after copy.

        Args:
            values: May carry a graph.
            detached: Whether to leave the weights' graph out.
        """

    @abstractmethod
    def pull(self, gradient: Tensor, *, detached: bool = False) -> Tensor:
        """The gradient at the entry, brought to the features: ``(..., M)``."""

    @abstractmethod
    def enter_box(self, interval: Interval) -> Box:
        """All that the net gets for values in ``interval``."""

    @abstractmethod
    def pull_box(self, gradient: Box) -> Box:
        """Bounds of the gradient at the entry, brought to the features."""


class FoldedEntry(Entry):
    r"""Behind an affine first layer: :math:`z + W_S (v - v_0)`.

    Args:
        fold: The net in two halves.
        entered: ``z``, what the first layer gives for the samples.
        values: ``v_0``.
        columns: ``S``.
    """

    def __init__(self, *, fold: Fold, entered: Tensor, values: Tensor, columns: Tensor) -> None:
        super().__init__(net=fold.tail, values=values, columns=columns)
        self.entered = entered
        self.weight = fold.layer.weight.index_select(1, columns)

    def enter(self, values: Tensor, *, detached: bool) -> Tensor:
        """See `Entry.enter`."""
        weight, start = self.weight, self.entered
        if detached:
            weight, start = weight.detach(), start.detach()
        if len(values) == len(start):
            return torch.addmm(start, values - self.values, weight.T)
        moves = values.view(len(values) // len(start), *self.values.shape) - self.values
        entered: Tensor = (moves @ weight.T + start).flatten(0, 1)
        return entered

    def pull(self, gradient: Tensor, *, detached: bool = False) -> Tensor:
        """See `Entry.pull`."""
        pulled: Tensor = gradient @ (self.weight.detach() if detached else self.weight)
        return pulled

    def enter_box(self, interval: Interval) -> Box:
        """See `Entry.enter_box`."""
        center, radius = _halves(interval)
        return Box(
            torch.addmm(self.entered, center - self.values, self.weight.T),
            radius @ self.weight.abs().T,
        )

    def pull_box(self, gradient: Box) -> Box:
        """See `Entry.pull_box`."""
        return Box(gradient.center @ self.weight, gradient.radius @ self.weight.abs())


class ScatteredEntry(Entry):
    """Before the whole model: the values are put back where they came from.

    Args:
        model: The model.
        features: The samples ``(N, *S)``.
        columns: Which of the flattened features move.
    """

    def __init__(self, *, model: nn.Module, features: Tensor, columns: Tensor) -> None:
        self.features = features.detach()
        values = self.features.flatten(1).index_select(1, columns)
        super().__init__(net=model, values=values, columns=columns)

    def enter(self, values: Tensor, *, detached: bool) -> Tensor:
        """See `Entry.enter`."""
        del detached  # no weight comes before
        copies = len(values) // len(self.features)
        rest = self.features.flatten(1)
        rest = rest if copies == 1 else rest.repeat(copies, 1)
        return rest.index_copy(1, self.columns, values).view(len(values), *self.features.shape[1:])

    def pull(self, gradient: Tensor, *, detached: bool = False) -> Tensor:
        """See `Entry.pull`."""
        del detached
        return gradient.flatten(1).index_select(1, self.columns)

    def enter_box(self, interval: Interval) -> Box:
        """See `Entry.enter_box`."""
        center, radius = _halves(interval)
        still = torch.zeros_like(self.features).flatten(1)
        wide = still.index_copy(1, self.columns, radius).view_as(self.features)
        return Box(self.enter(center, detached=False), wide)

    def pull_box(self, gradient: Box) -> Box:
        """See `Entry.pull_box`."""
        return Box(self.pull(gradient.center), self.pull(gradient.radius))


def _halves(interval: Interval) -> tuple[Tensor, Tensor]:
    lower, upper = interval
    return (lower + upper) / 2, (upper - lower) / 2


class MaskedFeatures:
    r"""The features that masks touch: their values, their gradient, and the model as they move.

    Of the ``D`` features of a sample the ``M`` that the mask of *any* sample of the batch touches
    are laid out as columns, ``(N, M)``; the others never move. Where the first layer is affine
    they are folded into a constant once, so that moving, differentiating and bounding cost
    products with ``M`` columns and not ``D``; elsewhere the values are put back into the
    input. Both give the same numbers within rounding.

    Args:
        entry: Where the values go in, and the net behind.
        model: The model, for its mode.
        mask: At the columns, ``(N, M)``.
        y: Labels ``(N,)``.
        nominal: The gradient of a target at the entry, with its graph if that is wanted.
        max_rows: The most rows a stacked pass may have; None is no ceiling.
    """

    def __init__(
        self,
        *,
        entry: Entry,
        model: nn.Module,
        mask: Tensor,
        y: Tensor,
        nominal: Callable[[Target], Tensor],
        max_rows: int | None,
    ) -> None:
        self.mask = mask
        self.y = y
        self.max_rows = max_rows
        self._entry = entry
        self._model = model
        self._nominal = nominal
        self._gradients: dict[Target, Tensor] = {}

    @property
    def values(self) -> Tensor:
        """The features themselves, ``(N, M)``."""
        return self._entry.values

    @property
    def columns(self) -> Tensor:
        """Which of the flattened features they are, ``(M,)``."""
        return self._entry.columns

    def gradient(self, target: Target | str = Target.LOSS) -> Tensor:
        """The gradient of ``target`` at the samples, ``(N, M)``; kept once taken."""
        target = Target(target)
        if target not in self._gradients:
            self._gradients[target] = self._entry.pull(self._nominal(target))
        return self._gradients[target]

    def box(
        self, epsilon: float | None, valid_range: tuple[float, float] | None = None
    ) -> Interval:
        r"""Where the masked features may move: :math:`x \pm \epsilon m`, within the valid range.

        Args:
            epsilon: In input units. None is every valid value, for which a range is needed; where
                the mask is soft, the feature moves by its share of the way.
            valid_range: The smallest and largest value of a feature; None is no limit. A feature
                outside it may stay where it is.
        """
        values, mask = self.values.detach(), self.mask
        if epsilon is None:
            low, high = _needed(valid_range)
            ends = [torch.full_like(values, end) for end in (low, high)]
            lower, upper = (torch.lerp(values, end, mask) for end in ends)
            return Interval(torch.minimum(lower, values), torch.maximum(upper, values))
        reach = epsilon * mask
        lower, upper = values - reach, values + reach
        if valid_range is not None:
            lower = torch.minimum(lower.clamp(min=valid_range[0]), values)
            upper = torch.maximum(upper.clamp(max=valid_range[1]), values)
        return Interval(lower, upper)

    def at(self, values: Tensor, *, reach_weights: bool = False) -> Point:
        """The model at other values of the masked features, as at test time.

        Args:
            values: ``(N, M)``, or ``(K * N, M)``, copy after copy; may carry a graph.
            reach_weights: Whether what is read off must reach the weights.
        """
        y = self.y if len(values) == len(self.y) else self.y.repeat(len(values) // len(self.y))
        with self._test_time(), torch.enable_grad():
            entered = self._entry.enter(values, detached=not reach_weights)
            if not entered.requires_grad:
                entered.requires_grad_()
            logits = self._entry.net(entered)
        return Point(self._entry, entered, logits, y, detached=not reach_weights)

    def output_box(self, interval: Interval) -> Box:
        """Bounds of the logits over values in ``interval``."""
        with self._test_time():
            return output_box(self._entry.net, self._entry.enter_box(interval))

    def gradient_box(self, interval: Interval, target: Target) -> tuple[Box, Box]:
        """Bounds of the logits, and of the gradient ``(N, M)``, over values in ``interval``."""
        with self._test_time():
            entered = self._entry.enter_box(interval)
            logits, gradient = gradient_box(self._entry.net, entered, self.y, target=target)
            return logits, self._entry.pull_box(gradient)

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
        entry: Where they went in.
        entered: What came of them there.
        logits: What the net gave.
        y: The labels.
        detached: Whether the weights' graph is left out.
    """

    def __init__(
        self, entry: Entry, entered: Tensor, logits: Tensor, y: Tensor, *, detached: bool
    ) -> None:
        self.logits = logits
        self.y = y
        self._entry = entry
        self._entered = entered
        self._detached = detached

    def gradient(self, target: Target, *, create_graph: bool = False) -> Tensor:
        """The gradient of ``target`` for each row, ``(rows, M)``."""
        with translate_autograd_errors(), torch.enable_grad():
            value = target(self.logits, self.y).sum()
            (gradient,) = torch.autograd.grad(value, self._entered, create_graph=create_graph)
        return self._entry.pull(gradient, detached=self._detached)


def _needed(valid_range: tuple[float, float] | None) -> tuple[float, float]:
    if valid_range is None:
        raise InvalidSettingError(
            "Expected a `valid_range` for features that may take every valid value, but got None. "
            "Give the smallest and largest value, such as (0.0, 1.0), or an `epsilon`."
        )
    return valid_range
