"""Layer-wise relevance propagation (LRP).

Relevance is computed with ordinary operations, and not with changed backward passes, so that
autograd can differentiate it again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Literal, final

import torch
from torch import Tensor, fx, nn
from torch.nn import functional
from typing_extensions import override

from rightreasons.core.checks import check_choice, positive_float
from rightreasons.core.model_modes import out_of_place
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.explainers.explainer import Explainer
from rightreasons.explainers.relevance_graph import Kind, Operation, RelevanceGraph
from rightreasons.explainers.subject import Subject
from rightreasons.probe.probe import Probe
from rightreasons.types import Batch, Interval, Target

__all__ = [
    "LRP",
    "Bound",
    "Linear",
    "box_rule",
    "epsilon_rule",
    "gamma_rule",
    "split_relevance",
    "z_plus_rule",
]

Linear = Callable[[Tensor, Tensor], Tensor]
"""An affine layer without its bias: input and weight -> output, linear in both."""
Bound = float | Sequence[float] | Tensor
"""One number, one for each channel, or a tensor that broadcasts to the input."""
_RULES = ("z_plus", "epsilon", "gamma")


@final
class LRP(Explainer):
    r"""Layer-wise relevance propagation: relevance of the prediction, passed down layer by layer.

    Relevance starts as :math:`\partial t / \partial f` at the logits, which is 1 for the label and
    0 for the others if the target is a logit. Each layer splits it among its inputs in proportion
    to their contributions: by `z_plus_rule`, `epsilon_rule` or `gamma_rule`, and by `box_rule` if
    it reads the input. Activations pass it on as it is, max pooling gives it to the largest
    elements, and BatchNorm is folded into the layer before it. A residual sum splits it in
    proportion to its summands, with ``rule="z_plus"`` to their absolute values.

    With ``rule="z_plus"`` relevance is conserved: attributions of a logit sum to 1, but for units
    to which nothing contributed. The other rules leave the biases their share.

    Differs from the paper: `z_plus_rule` allows negative activations.

    Args:
        rule: The rule for all layers that do not read the input; ``"z_plus"`` in the paper.
        valid_range: Smallest and largest value of an input, in units of ``x``: numbers, or one
            number per channel, such as ``card.valid_range`` of a data set. None applies ``rule`` to
            the first layer as well.
        epsilon: A small number that keeps denominators of the epsilon and gamma rules from zero.
        gamma: How much the gamma rule favours positive weights.
        target: The number of the prediction that is explained.

    Example:
        >>> model = nn.Sequential(nn.Linear(3, 4), nn.Softplus(), nn.Linear(4, 2))
        >>> relevance = LRP(valid_range=(0.0, 1.0))(model, torch.rand(1, 3), torch.tensor([1]))
        >>> relevance.shape, bool((relevance >= 0).all())
        (torch.Size([1, 3]), True)

    References:
        bach2015pixel, montavon2017explaining, montavon2019layer, otsuki2024layer
    """

    def __init__(
        self,
        *,
        rule: Literal["z_plus", "epsilon", "gamma"] = "z_plus",
        valid_range: tuple[Bound, Bound] | None = (0.0, 1.0),
        epsilon: float = 1e-6,
        gamma: float = 0.25,
        target: Target | str = Target.LOGIT,
    ) -> None:
        super().__init__(target=target)
        self.rule = check_choice("rule", rule, _RULES)
        self.valid_range = None if valid_range is None else _check_range(valid_range)
        self.epsilon = positive_float("epsilon", epsilon)
        self.gamma = positive_float("gamma", gamma)

    @override
    def attribution(self, subject: Subject) -> Tensor:
        subject.refuse_tokens("LRP")
        graph = RelevanceGraph(subject.model)
        batch = Batch.trusted(x=subject.features, y=subject.y)
        with out_of_place(subject.model):
            probe = Probe.at_test_time(graph, batch, create_graph=subject.create_graph)
            boxes = self._input_boxes(graph, subject.features)
            target = self.target
            start = torch.func.grad(lambda logits: target(logits, subject.y).sum())(probe.logits)
            relevance: dict[fx.Node, Tensor] = {graph.sink: start}
            for node in reversed(list(graph.operations)):
                if node not in relevance:
                    continue
                operation = graph.operations[node]
                parts = self._hand_down(graph, operation, boxes, relevance.pop(node))
                for parent, part in zip(operation.parents, parts, strict=True):
                    relevance[parent] = relevance[parent] + part if parent in relevance else part
        # Operations refer to the graph. Breaking the cycle frees the activations at once.
        graph.operations.clear()
        return relevance.get(graph.source, torch.zeros_like(subject.features))

    def _input_boxes(self, graph: RelevanceGraph, x: Tensor) -> dict[fx.Node, Interval]:
        """The boxes of nodes that only move, select, scale or shift the input."""
        if self.valid_range is None:
            return {}
        boxes = {graph.source: _input_box(self.valid_range, x)}
        for node, operation in graph.operations.items():
            inherited = [boxes[parent] for parent in operation.parents if parent in boxes]
            is_whole = bool(inherited) and len(inherited) == len(operation.parents)
            if is_whole and operation.kind in (Kind.ROUTE, Kind.SCALE):
                ends = [operation.function(*side) for side in zip(*inherited, strict=True)]
                boxes[node] = Interval(torch.minimum(*ends), torch.maximum(*ends))
        return boxes

    def _hand_down(
        self,
        graph: RelevanceGraph,
        operation: Operation,
        boxes: dict[fx.Node, Interval],
        relevance: Tensor,
    ) -> Sequence[Tensor]:
        inputs = [graph.values[parent] for parent in operation.parents]
        match operation.kind:
            case Kind.PASS | Kind.SCALE:
                return [relevance.sum_to_size(inputs[0].shape)]
            case Kind.ROUTE:
                return torch.func.vjp(operation.function, *inputs)[1](relevance)  # type: ignore[no-any-return]
            case Kind.SUM:
                return self._split_sum(operation, inputs, relevance)
            case Kind.AFFINE:
                linear, weight, bias = _affine_parts(operation)
            case Kind.AVERAGE:
                linear, weight, bias = _average_parts(operation, inputs[0])
        box = boxes.get(operation.parents[0])
        if box is not None:
            return [box_rule(linear, inputs[0], weight, relevance, *box)]
        return [self._apply_rule(linear, inputs[0], weight, bias, relevance)]

    def _apply_rule(
        self, linear: Linear, x: Tensor, weight: Tensor, bias: Tensor | None, relevance: Tensor
    ) -> Tensor:
        if self.rule == "z_plus":
            return z_plus_rule(linear, x, weight, relevance)
        if self.rule == "epsilon":
            return epsilon_rule(linear, x, weight, bias, relevance, epsilon=self.epsilon)
        return gamma_rule(
            linear, x, weight, bias, relevance, gamma=self.gamma, epsilon=self.epsilon
        )

    def _split_sum(
        self, operation: Operation, inputs: Sequence[Tensor], relevance: Tensor
    ) -> list[Tensor]:
        # The contribution of each summand, with its sign in a difference.
        zeros = [torch.zeros_like(summand) for summand in inputs]
        added = [
            operation.function(inputs[0], zeros[1]),
            operation.function(zeros[0], inputs[1]),
        ]
        if self.rule == "z_plus":
            parts = split_relevance([part.abs() for part in added], relevance)
        elif self.rule == "epsilon":
            parts = split_relevance(added, relevance, epsilon=self.epsilon)
        else:
            favoured = [part + self.gamma * part.clamp(min=0) for part in added]
            parts = split_relevance(favoured, relevance, epsilon=self.epsilon)
        return [part.sum_to_size(x.shape) for part, x in zip(parts, inputs, strict=True)]


def z_plus_rule(linear: Linear, x: Tensor, weight: Tensor, relevance: Tensor) -> Tensor:
    r"""The z+ rule, where only positive contributions count.

    .. math:: R_i = \sum_j \frac{(x_i w_{ij})_+}{\sum_{i'} (x_{i'} w_{i'j})_+} R_j

    For activations of at least 0 it is the paper's :math:`x_i w_{ij}^+`. The bias gets none.
    """
    pairs = [(x.clamp(min=0), weight.clamp(min=0))]
    if bool((x < 0).any()):
        pairs.append((x.clamp(max=0), weight.clamp(max=0)))
    return _hand_down(linear, pairs, relevance)


def box_rule(
    linear: Linear, x: Tensor, weight: Tensor, relevance: Tensor, lower: Tensor, upper: Tensor
) -> Tensor:
    r"""The zB rule for inputs in a box :math:`[l, h]`, on which no contribution is negative.

    .. math:: R_i = \sum_j \frac{x_i w_{ij} - l_i w_{ij}^+ - h_i w_{ij}^-}
        {\sum_{i'} x_{i'} w_{i'j} - l_{i'} w_{i'j}^+ - h_{i'} w_{i'j}^-} R_j
    """
    # The numbers of the formula, rearranged so that nothing cancels.
    pairs = [(x - lower, weight.clamp(min=0)), (x - upper, weight.clamp(max=0))]
    return _hand_down(linear, pairs, relevance)


def epsilon_rule(
    linear: Linear,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    relevance: Tensor,
    *,
    epsilon: float,
) -> Tensor:
    r"""The epsilon rule: all contributions count, and the bias keeps its share.

    .. math:: R_i = \sum_j \frac{x_i w_{ij}}{z_j + \epsilon \, \mathrm{sign}(z_j)} R_j,
        \quad z_j = \sum_i x_i w_{ij} + b_j
    """
    return _hand_down(linear, [(x, weight)], relevance, bias=bias, epsilon=epsilon)


def gamma_rule(
    linear: Linear,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    relevance: Tensor,
    *,
    gamma: float,
    epsilon: float,
) -> Tensor:
    r"""The gamma rule, which favours positive weights: :math:`w + \gamma w^+` for w and b."""
    favoured = bias if bias is None else bias + gamma * bias.clamp(min=0)
    pairs = [(x, weight + gamma * weight.clamp(min=0))]
    return _hand_down(linear, pairs, relevance, bias=favoured, epsilon=epsilon)


def split_relevance(
    contributions: Sequence[Tensor], relevance: Tensor, *, epsilon: float = 0.0
) -> list[Tensor]:
    """Split relevance among summands in proportion to their contributions.

    Example:
        >>> one, three = torch.tensor([1.0]), torch.tensor([3.0])
        >>> [part.item() for part in split_relevance([one, three], torch.tensor([8.0]))]
        [2.0, 6.0]
    """
    total = reduce(operator.add, contributions)
    rate = _relevance_rate(relevance, total, epsilon)
    return [(part * rate).sum_to_size(part.shape) for part in contributions]


def _hand_down(
    linear: Linear,
    pairs: Sequence[tuple[Tensor, Tensor]],
    relevance: Tensor,
    *,
    bias: Tensor | None = None,
    epsilon: float = 0.0,
) -> Tensor:
    outputs, pulls = zip(
        *(_forward_and_pullback(linear, x, weight) for x, weight in pairs), strict=True
    )
    total: Tensor = reduce(operator.add, outputs)
    if bias is not None:
        total = total + bias
    rate = _relevance_rate(relevance, total, epsilon)
    parts: list[Tensor] = [x * pull(rate) for (x, _), pull in zip(pairs, pulls, strict=True)]
    return reduce(operator.add, parts)


def _forward_and_pullback(
    linear: Linear, x: Tensor, weight: Tensor
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The output, and the function that multiplies by the transposed weight."""
    output_and_vjp: Any = torch.func.vjp(lambda given: linear(given, weight), x)
    return output_and_vjp[0], lambda rate: output_and_vjp[1](rate)[0]


def _relevance_rate(relevance: Tensor, total: Tensor, epsilon: float) -> Tensor:
    """Relevance per unit of contribution; zero where the total contribution is zero.

    A total so small that the rate would overflow, as behind a Softplus far below 0, counts as zero.
    """
    if epsilon:
        total = total + torch.where(total < 0, -epsilon, epsilon)
    is_empty = total.abs() <= torch.finfo(total.dtype).tiny ** 0.5
    return torch.where(is_empty, 0, relevance / torch.where(is_empty, 1, total))


def _affine_parts(operation: Operation) -> tuple[Linear, Tensor, Tensor | None]:
    """The layer without its bias, its weight and its bias, with BatchNorm folded in."""
    layer: Any = operation.layer
    norm: Any = operation.norm
    weight: Tensor = layer.weight
    bias: Tensor | None = layer.bias
    if norm is not None:
        scale = (norm.running_var + norm.eps).rsqrt()
        scale = scale if norm.weight is None else scale * norm.weight
        shift = (0 if bias is None else bias) - norm.running_mean
        weight = weight * scale.reshape(-1, *[1] * (weight.ndim - 1))
        bias = shift * scale if norm.bias is None else shift * scale + norm.bias
    if isinstance(layer, nn.Linear):
        return functional.linear, weight, bias
    trailing = (1,) * (weight.ndim - 2)
    bias = None if bias is None else bias.reshape(-1, *trailing)
    return lambda x, w: layer._conv_forward(x, w, None), weight, bias


def _average_parts(operation: Operation, x: Tensor) -> tuple[Linear, Tensor, None]:
    return lambda x, w: operation.function(x * w), x.new_ones(()), None


def _check_range(valid_range: tuple[Bound, Bound]) -> tuple[Bound, Bound]:
    lower, upper = (torch.as_tensor(bound, dtype=torch.float64) for bound in valid_range)
    if not bool((lower < upper).all()):
        raise InvalidSettingError(
            f"Expected `valid_range` to be a lower and a higher value, but got {valid_range!r}."
        )
    return valid_range


def _input_box(valid_range: tuple[Bound, Bound], x: Tensor) -> Interval:
    bounds = [torch.as_tensor(bound, dtype=x.dtype, device=x.device) for bound in valid_range]
    trailing = [1] * (x.ndim - 2)
    lower, upper = (
        (bound.reshape(-1, *trailing) if bound.ndim == 1 else bound).expand_as(x)
        for bound in bounds
    )
    slack = 1e-4 * (upper - lower)
    if bool(((x < lower - slack) | (x > upper + slack)).any()):
        raise InvalidBatchError(
            f"Expected `x` within `valid_range`, {valid_range}, but got values from "
            f"{float(x.min()):g} to {float(x.max()):g}. Give LRP the range of the data, or "
            "valid_range=None."
        )
    return Interval(lower, upper)
