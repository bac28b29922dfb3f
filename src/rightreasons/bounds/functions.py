"""The public functions: bounds of outputs, margins and input gradients over a box of inputs.

`output_bounds`, `margin_bounds` and `input_gradient_bounds` check their arguments and make
certificates. `output_box`, `gradient_box` and `lowest_margins` compute the same inside a loss.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rightreasons.bounds import spot_check
from rightreasons.bounds.box import (
    METHODS,
    Box,
    check_box,
    check_columns,
    check_labels,
    full_precision,
    precision,
    sum_error,
    underflow_error,
    widen_overflowed,
    widen_overflowed_box,
)
from rightreasons.bounds.crown import crown_boxes, intersect, row_minima
from rightreasons.bounds.crown_gradient import gradient_ends
from rightreasons.bounds.network import Network, Node, network_of
from rightreasons.bounds.rule import ruled_kind
from rightreasons.core.checks import check_choice, check_flag
from rightreasons.types import Interval, Target

__all__ = [
    "gradient_box",
    "input_gradient_bounds",
    "interval_margins",
    "log_sum_of_others",
    "lowest_margins",
    "margin_bounds",
    "output_bounds",
    "output_box",
    "probability_ends",
    "target_gradient",
]

_MOST_PAIRS = 2**20  # most elements in a table of differences of weights


def output_bounds(
    model: nn.Module,
    lower: Tensor,
    upper: Tensor,
    *,
    method: str = "ibp",
    outward: bool = True,
) -> Interval:
    """Bounds of a model's outputs for all inputs between two ends.

    The model is bounded as at test time, whatever its mode, and is not changed. Gradients of the
    bounds reach its weights. The model itself is evaluated at the centre of the box and at three
    corners, and bounds that do not hold its values are refused.

    Args:
        model: Any that `torch.fx` can trace into layers that have rules.
        lower: The lower ends of the inputs, ``(N, *S)``.
        upper: The upper ends.
        method: ``"ibp"``, interval bound propagation, or ``"crown"``, which is slower and never
            looser.
        outward: Whether the bounds must hold for numbers that are rounded to this precision, and
            not for real numbers only.

    Returns:
        The ends of the outputs, ``(N, K)``; infinite where the bounds overflowed.

    Raises:
        UnsupportedLayerError: For layers without rules, all at once with their paths.
        CertificateError: If the model's own values at some points lie outside.

    Example:
        >>> import torch
        >>> model = nn.Linear(2, 1, bias=False)
        >>> _ = nn.init.constant_(model.weight, 0.5)
        >>> bounds = output_bounds(model, torch.zeros(1, 2), torch.ones(1, 2), outward=False)
        >>> bounds.lower.tolist(), bounds.upper.tolist()
        ([[0.0]], [[1.0]])

    References:
        gowal2018effectiveness, zhang2018efficient
    """
    box = check_box(lower, upper, outward=check_flag("outward", outward))
    chosen = check_choice("method", method, METHODS)
    with full_precision(box.center):
        network = network_of(model, box.center)
        boxes = network.forward(box, outward=outward)
        ends = widen_overflowed(boxes[-1].ends(outward=outward), boxes)
        if chosen == "crown":
            boxes = crown_boxes(network, box, outward=outward)
            tight = widen_overflowed(boxes[-1].ends(outward=outward), boxes)
            ends = intersect(ends, tight)
        spot_check.refuse_wrong_outputs(model, network, (lower, upper), ends, outward=outward)
    return Interval(*ends)


def margin_bounds(
    model: nn.Module,
    lower: Tensor,
    upper: Tensor,
    y: Tensor,
    *,
    method: str = "ibp",
    outward: bool = True,
) -> Tensor:
    r"""For each class a lower bound of :math:`f_y(x) - f_k(x)` over the inputs between two ends.

    Where the bounds of all other classes are above 0, the prediction is ``y`` whatever the input.
    Merging the last layer into the difference makes this tighter than bounds of the logits.
    Negated, the margins are worst-case logits: their cross-entropy is above that of every input in
    the box.

    Args:
        model: Any that `output_bounds` takes; its outputs are logits ``(N, K)``.
        lower: The lower ends of the inputs, ``(N, *S)``.
        upper: The upper ends.
        y: Labels ``(N,)``.
        method: ``"ibp"`` or ``"crown"``, as for `output_bounds`.
        outward: Whether the bounds must hold despite rounding.

    Returns:
        ``(N, K)``; exactly 0 for the label, minus infinity where the bounds overflowed.

    Example:
        >>> x, y = torch.zeros(1, 2), torch.tensor([1])
        >>> margin_bounds(nn.Identity(), x, x + 1, y, outward=False)
        tensor([[-1.,  0.]])
    """
    box = check_box(lower, upper, outward=check_flag("outward", outward))
    with full_precision(box.center):
        network = network_of(model, box.center)
        boxes = network.forward(box, outward=outward)
        y = check_labels(y, boxes[-1].center)
        margins = interval_margins(network, boxes, y, outward=outward)
        margins = _widen_overflowed_margins(margins, boxes, y)
        if check_choice("method", method, METHODS) == "crown":
            boxes = crown_boxes(network, box, outward=outward)
            rows = _differences(boxes[-1].center, y)
            tight = row_minima(network, boxes, len(boxes) - 1, rows, outward=outward)
            # All three are lower bounds, so that the largest is one.
            for bound in (interval_margins(network, boxes, y, outward=outward), tight):
                margins = torch.maximum(margins, _widen_overflowed_margins(bound, boxes, y))
        spot_check.refuse_wrong_margins(model, network, (lower, upper), y, margins, outward=outward)
    return margins


def input_gradient_bounds(
    model: nn.Module,
    lower: Tensor,
    upper: Tensor,
    y: Tensor,
    *,
    target: Target | str = Target.LOGIT,
    method: str = "ibp",
    columns: Tensor | None = None,
    outward: bool = True,
) -> Interval:
    r"""Bounds of the input gradient :math:`\nabla_x t(x)` for all inputs between two ends.

    The forward pass bounds the derivative of every activation over the box. The chain rule is then
    followed backward with intervals. At width zero the bounds are the gradient itself.

    Args:
        model: Any that `output_bounds` takes; its outputs are logits ``(N, K)``.
        lower: The lower ends of the inputs, ``(N, *S)``.
        upper: The upper ends.
        y: Labels ``(N,)``.
        target: The number of the prediction that is differentiated.
        method: ``"ibp"`` or ``"crown"``, as for `output_bounds`. ``"crown"`` relaxes the backward
            pass as well, with one row for each bounded feature.
        columns: Indices of the flattened features to bound; None bounds all. With few of them
            ``"crown"`` costs less.
        outward: Whether the bounds must hold despite rounding.

    Returns:
        Ends shaped as the input, or ``(N, len(columns))``; infinite where the bounds overflowed.

    Example:
        >>> import torch
        >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        >>> x, y = torch.rand(5, 3), torch.zeros(5, dtype=torch.long)
        >>> bounds = input_gradient_bounds(model, x - 0.1, x + 0.1, y, target="loss")
        >>> bounds.lower.shape, bool((bounds.lower <= bounds.upper).all())
        (torch.Size([5, 3]), True)

    References:
        wicker2023robust, ghitu2025model
    """
    target = Target(target)
    box = check_box(lower, upper, outward=check_flag("outward", outward))
    chosen = check_columns(columns, box.center[0].numel())
    tightens = check_choice("method", method, METHODS) == "crown"
    with full_precision(box.center):
        network = network_of(model, box.center)
        boxes = network.forward(box, outward=outward)
        y = check_labels(y, boxes[-1].center)
        ends, _ = _interval_gradient_ends(network, boxes, y, target, chosen, outward=outward)
        if tightens:
            boxes = crown_boxes(network, box, outward=outward)
            tighter, gradients = _interval_gradient_ends(
                network, boxes, y, target, chosen, outward=outward
            )
            ends = intersect(ends, tighter)
            lines = gradient_ends(network, boxes, gradients, chosen, outward=outward)
            ends = intersect(ends, widen_overflowed(lines, [*boxes, *gradients]))
        spot_check.refuse_wrong_gradients(
            model, network, (lower, upper), y, target, ends, chosen, outward=outward
        )
    if columns is None:
        ends = ends[0].reshape(lower.shape), ends[1].reshape(lower.shape)
    return Interval(*ends)


def output_box(model: nn.Module, box: Box, *, method: str = "ibp", outward: bool = False) -> Box:
    """The box of a model's outputs over a box of inputs, for use inside a loss.

    Arguments are not checked. `output_bounds` makes a certificate.

    Args:
        model: Any that `network_of` takes.
        box: The inputs, ``(N, *S)``.
        method: ``"ibp"`` or ``"crown"``, as for `output_bounds`.
        outward: Whether the box must hold despite rounding.

    Example:
        >>> import torch
        >>> box = Box(torch.zeros(1, 2), torch.ones(1, 2))
        >>> output_box(nn.Flatten(), box).radius
        tensor([[1., 1.]])
    """
    with full_precision(box.center):
        network = network_of(model, box.center)
        return _with_full_radius(_node_boxes(network, box, method, outward=outward)[-1])


def gradient_box(
    model: nn.Module,
    box: Box,
    y: Tensor,
    *,
    target: Target | str,
    method: str = "ibp",
    outward: bool = False,
) -> tuple[Box, Box]:
    """The boxes of the logits and of the input gradient, for use inside a loss.

    Arguments are not checked. `input_gradient_bounds` makes a certificate.

    Args:
        model: Any that `network_of` takes; its outputs are logits ``(N, K)``.
        box: The inputs, ``(N, *S)``.
        y: Labels ``(N,)``.
        target: The number of the prediction that is differentiated.
        method: ``"ibp"`` or ``"crown"``, as for `output_bounds`. ``"crown"`` tightens the bounds of
            the activations; the gradient itself is bounded by intervals.
        outward: Whether the boxes must hold despite rounding.

    Returns:
        Logits ``(N, K)``, gradient ``(N, *S)``. Where any layer's bounds overflowed, the radius of
        the gradient is infinite.
    """
    with full_precision(box.center):
        network = network_of(model, box.center)
        boxes = _node_boxes(network, box, method, outward=outward)
        start = target_gradient(boxes[-1], y, Target(target), outward=outward)
        gradients = network.backward(boxes, start, outward=outward)
        gradient = widen_overflowed_box(_with_full_radius(gradients[0]), [*boxes, *gradients])
        return _with_full_radius(boxes[-1]), gradient


def lowest_margins(
    model: nn.Module, box: Box, y: Tensor, *, method: str = "ibp", outward: bool = False
) -> Tensor:
    """The margins of `margin_bounds` for use inside a loss, without checks of the arguments.

    ``"crown"`` tightens the bounds of the activations before the last layer is merged.
    """
    with full_precision(box.center):
        network = network_of(model, box.center)
        boxes = _node_boxes(network, box, method, outward=outward)
        return interval_margins(network, boxes, y, outward=outward)


def interval_margins(network: Network, boxes: list[Box], y: Tensor, *, outward: bool) -> Tensor:
    r"""Lower bounds of :math:`f_y - f_k` from the boxes of all nodes; 0 for the label."""
    last = network.nodes[-1] if network.nodes else Node("", None, ())
    if isinstance(last.layer, nn.Linear) and ruled_kind(type(last.layer)) is nn.Linear:
        return _merged_margins(last.layer, boxes[last.inputs[0]], y, outward=outward)
    lower, upper = boxes[-1].ends(outward=outward)
    margins = lower.gather(1, y[:, None]) - upper
    if outward:
        margins = margins - (2 * precision(margins) * margins.abs() + underflow_error(margins))
    return margins.scatter(1, y[:, None], 0.0)


def target_gradient(logits: Box, y: Tensor, target: Target, *, outward: bool = False) -> Box:
    r"""The box of :math:`\nabla_f t` over a box of logits, ``(N, K)``.

    ===================== ==========================================================
    ``logit``             :math:`e_y`, exactly
    ``loss``              :math:`p - e_y` with bounds of the probabilities
    ``logsumexp``         :math:`p`
    ``log_probabilities`` :math:`1 - K p`
    ``margin``            :math:`e_y - e_r`, where ``r`` is any class that may come second
    ===================== ==========================================================

    Args:
        logits: The box of the logits, ``(N, K)``.
        y: Labels ``(N,)``.
        target: The number of the prediction that is differentiated.
        outward: Whether the box must hold despite rounding.
    """
    label = torch.zeros_like(logits.center).scatter_(1, y[:, None], 1.0)  # one-hot
    if target is Target.LOGIT:
        return Box.exact(label)
    if target is Target.MARGIN:
        low, high = _runner_up_ends(logits, label.bool(), outward=outward)
        return Box.between(label - high, label - low)
    low, high = probability_ends(logits, outward=outward)
    if target is Target.LOSS:
        low, high = low - label, high - label
    elif target is Target.LOG_PROBABILITIES:
        num_classes = logits.center.shape[1]
        low, high = 1 - num_classes * high, 1 - num_classes * low
    if outward and target is not Target.LOGSUMEXP:
        # The model rounds this difference as well, for the loss at the label only.
        slack = 4 * precision(low) * (1 + torch.maximum(low.abs(), high.abs()))
        slack = slack * label if target is Target.LOSS else slack
        low, high = low - slack, high + slack
    return Box.between(low, high, outward=outward)


def probability_ends(logits: Box, *, outward: bool = False) -> tuple[Tensor, Tensor]:
    r"""The smallest and the largest probability of each class.

    The probability of a class is largest where its logit is highest and all others are lowest:

    .. math:: p_k \le \sigma\Big(u_k - \log \sum_{j \ne k} e^{l_j}\Big), \quad
              p_k \ge \sigma\Big(l_k - \log \sum_{j \ne k} e^{u_j}\Big)

    Example:
        >>> low, high = probability_ends(Box(torch.zeros(1, 2), torch.zeros(1, 2)))
        >>> low, high
        (tensor([[0.5000, 0.5000]]), tensor([[0.5000, 0.5000]]))
    """
    lower, upper = logits.ends(outward=outward)
    low = torch.sigmoid(lower - log_sum_of_others(upper))
    high = torch.sigmoid(upper - log_sum_of_others(lower))
    if not outward:
        return low, high
    farthest = logits.magnitude.amax(dim=1, keepdim=True)
    # An exponent is off by a few units of the logits' magnitude, and the sum by one per class.
    error = 2 * (low.shape[1] + 8) * precision(low) * (1 + farthest)
    least = underflow_error(low)
    return (low - (low * error + least)).clamp(min=0), (high + (high * error + least)).clamp(max=1)


def log_sum_of_others(logits: Tensor) -> Tensor:
    r"""For each class :math:`\log \sum_{j \ne k} e^{f_j}`, without a matrix of pairs.

    Each but the largest logit makes up at most half of the sum and can be subtracted without
    cancellation. The sum without the largest is computed anew.
    """
    total = torch.logsumexp(logits, dim=1, keepdim=True)
    is_first = torch.zeros_like(logits, dtype=torch.bool)
    is_first.scatter_(1, logits.argmax(dim=1, keepdim=True), True)
    without_first = torch.logsumexp(logits.masked_fill(is_first, -torch.inf), dim=1, keepdim=True)
    share = torch.exp(logits - total).masked_fill(is_first, 0)
    return torch.where(is_first, without_first, total + torch.log1p(-share))


def _node_boxes(network: Network, box: Box, method: str, *, outward: bool) -> list[Box]:
    if check_choice("method", method, METHODS) == "crown":
        return crown_boxes(network, box, outward=outward)
    return network.forward(box, outward=outward)


def _with_full_radius(box: Box) -> Box:
    return Box(box.center, box.full_radius())


def _interval_gradient_ends(
    network: Network,
    boxes: list[Box],
    y: Tensor,
    target: Target,
    columns: Tensor | None,
    *,
    outward: bool,
) -> tuple[tuple[Tensor, Tensor], list[Box]]:
    """The ends of the input gradient, flattened, and the boxes of all nodes' gradients."""
    start = target_gradient(boxes[-1], y, target, outward=outward)
    gradients = network.backward(boxes, start, outward=outward)
    ends = widen_overflowed(gradients[0].ends(outward=outward), [*boxes, *gradients])
    lower, upper = (end.flatten(1) for end in ends)
    if columns is not None:
        lower, upper = lower.index_select(1, columns), upper.index_select(1, columns)
    return (lower, upper), gradients


def _widen_overflowed_margins(margins: Tensor, boxes: list[Box], y: Tensor) -> Tensor:
    """Make margins minus infinity where a box overflowed, but for the label."""
    lowest, _ = widen_overflowed((margins, margins), boxes)
    return lowest.scatter(1, y[:, None], 0.0)


def _differences(logits: Tensor, y: Tensor) -> Tensor:
    """The margins as linear functions of the logits, one row per class."""
    num_classes = logits.shape[1]
    identity = torch.eye(num_classes, dtype=logits.dtype, device=logits.device)
    return identity[y].unsqueeze(1) - identity  # (N, K, K)


def _merged_margins(layer: nn.Linear, hidden: Box, y: Tensor, *, outward: bool) -> Tensor:
    r"""The last layer merged into the difference: :math:`(w_y - w_k) h + b_y - b_k`."""
    center = nn.functional.linear(hidden.center, layer.weight, layer.bias)
    label = y[:, None]
    margins = center.gather(1, label) - center
    if not hidden.is_exact:
        margins = margins - _difference_radius(layer.weight, hidden.radius, y)
    if outward:
        # The model rounds each logit by itself: magnitudes count and not differences.
        size = nn.functional.linear(hidden.magnitude, layer.weight.abs())
        size = size if layer.bias is None else size + layer.bias.abs()
        slack = 2 * sum_error(layer.in_features, size) * (size + size.gather(1, label))
        margins = margins - (slack + underflow_error(slack))
    return margins.scatter(1, label, 0.0)


def _difference_radius(weight: Tensor, radius: Tensor, y: Tensor) -> Tensor:
    r"""For each sample and class :math:`|w_y - w_k| r`."""
    num_classes, width = weight.shape
    # With few classes all pairs fit into one product; else one product for each label.
    if num_classes * num_classes * width <= 2 * _MOST_PAIRS:
        first, second = torch.triu_indices(num_classes, num_classes, 1, device=weight.device)
        pairs = radius @ (weight[first] - weight[second]).abs().T  # (N, K (K - 1) / 2)
        column = torch.zeros(num_classes, num_classes, dtype=torch.long, device=weight.device)
        column[first, second] = column[second, first] = torch.arange(
            len(first), device=weight.device
        )
        return pairs.gather(1, column[y])
    products = radius.new_zeros(len(radius), num_classes)
    for label in torch.unique(y):
        rows = (y == label).nonzero().flatten()
        part = radius[rows] @ (weight[label] - weight).abs().T
        products = products.index_copy(0, rows, part)
    return products


def _runner_up_ends(logits: Box, is_label: Tensor, *, outward: bool) -> tuple[Tensor, Tensor]:
    """Whether each class is the largest but the label: 1 for certain, and 1 if it may be."""
    lower, upper = (end.masked_fill(is_label, -torch.inf) for end in logits.ends(outward=outward))
    possible = (upper >= lower.amax(dim=1, keepdim=True)) & ~is_label
    first, index = upper.max(dim=1, keepdim=True)
    second = upper.scatter(1, index, -torch.inf).amax(dim=1, keepdim=True)
    is_first = torch.zeros_like(is_label).scatter_(1, index, True)
    certain = (lower > torch.where(is_first, second, first)) & ~is_label
    return certain.to(lower.dtype), possible.to(lower.dtype)
