"""Slow twins of the bounds: intervals of single numbers, loops only, for Linear and ReLU nets.

A net is a list of pairs (weight, bias) of nested lists; a ReLU stands between each two. Intervals
are pairs (lower, upper).
"""

import math


def intervals(box, sample):
    """One sample of a box of tensors as a list of pairs."""
    lower, upper = box.lower[sample].tolist(), box.upper[sample].tolist()
    return list(zip(lower, upper, strict=True))


def scaled(factor, interval):
    ends = sorted(factor * end for end in interval)
    return ends[0], ends[1]


def added(intervals):
    return sum(low for low, _ in intervals), sum(high for _, high in intervals)


def multiplied(first, second):
    corners = [a * b for a in first for b in second]
    return min(corners), max(corners)


def linear(weight, bias, inputs):
    return [
        added([(offset, offset), *(scaled(w, x) for w, x in zip(row, inputs, strict=True))])
        for row, offset in zip(weight, bias, strict=True)
    ]


def relu(inputs):
    return [(max(low, 0.0), max(high, 0.0)) for low, high in inputs]


def relu_slope(interval):
    return (1.0 if interval[0] > 0 else 0.0), (1.0 if interval[1] > 0 else 0.0)


def forward(net, inputs):
    """The intervals before every ReLU and at the end."""
    stages, current = [], inputs
    for weight, bias in net:
        stages.append(linear(weight, bias, current))
        current = relu(stages[-1])
    return stages


def softmax(logits):
    """Each class: own logit highest and the others lowest, and the other way round."""
    intervals = []
    for own, (low, high) in enumerate(logits):
        others = [pair for number, pair in enumerate(logits) if number != own]
        least = 1 / (1 + sum(math.exp(upper - low) for _, upper in others))
        most = 1 / (1 + sum(math.exp(lower - high) for lower, _ in others))
        intervals.append((least, most))
    return intervals


def runner_up(logits, label):
    """1 for the class that is the largest other for certain; 0 to 1 for those that may be."""
    intervals = []
    for own, (low, high) in enumerate(logits):
        others = [pair for k, pair in enumerate(logits) if k not in (own, label)]
        may = own != label and all(high >= lower for lower, _ in others)
        must = own != label and all(low > upper for _, upper in others)
        intervals.append((float(must), float(may)))
    return intervals


def start(logits, label, target):
    """The intervals of a target's gradient at the logits."""
    own = [1.0 if number == label else 0.0 for number in range(len(logits))]
    if target == "logit":
        return [(value, value) for value in own]
    if target == "margin":
        return [(o - b, o - a) for o, (a, b) in zip(own, runner_up(logits, label), strict=True)]
    shares = softmax(logits)
    if target == "loss":
        return [(a - o, b - o) for o, (a, b) in zip(own, shares, strict=True)]
    if target == "log_probabilities":
        count = len(logits)
        return [(1 - count * b, 1 - count * a) for a, b in shares]
    return shares


def input_gradient(net, inputs, label, target):
    """The intervals of the input gradient, by the chain rule from the logits back."""
    stages = forward(net, inputs)
    current = start(stages[-1], label, target)
    for number in range(len(net) - 1, -1, -1):
        weight, _ = net[number]
        pulled = []
        for column in range(len(weight[0])):
            parts = [scaled(row[column], g) for row, g in zip(weight, current, strict=True)]
            pulled.append(added(parts))
        current = pulled
        if number:
            slopes = [relu_slope(interval) for interval in stages[number - 1]]
            current = [multiplied(s, g) for s, g in zip(slopes, current, strict=True)]
    return current


def margins(net, inputs, label):
    """Lower bounds of the own logit minus each other's, with the last layer merged."""
    weight, bias = net[-1]
    hidden = relu(forward(net[:-1], inputs)[-1]) if len(net) > 1 else inputs
    found = []
    for row, offset in zip(weight, bias, strict=True):
        difference = [a - b for a, b in zip(weight[label], row, strict=True)]
        low, _ = linear([difference], [bias[label] - offset], hidden)[0]
        found.append(low)
    return found
