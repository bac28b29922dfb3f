"""Slow twins of the attacks on predictions: one sample, one feature at a time."""

import math

import torch
from torch import nn
from torch.nn import functional


class Recording(nn.Module):
    """A net that keeps a copy of every input."""

    def __init__(self, net):
        super().__init__()
        self.net, self.seen = net, []

    def forward(self, x):
        self.seen.append(x.detach().clone())
        return self.net(x)


def loss_and_slope(model, point, y, criterion):
    point = point.clone().requires_grad_()
    value = criterion(model(point[None]), torch.tensor([y]))[0]
    (slope,) = torch.autograd.grad(value, point)
    return value.item(), slope


def cross_entropy(logits, y):
    return functional.cross_entropy(logits, y, reduction="none")


def projected(point, x, epsilon, norm):
    """Projection to the ball, then to [0, 1]."""
    moves = [float(p - o) for p, o in zip(point.flatten(), x.flatten(), strict=True)]
    if norm == "linf":
        moves = [min(max(move, -epsilon), epsilon) for move in moves]
    else:
        length = math.sqrt(sum(move**2 for move in moves))
        if length > epsilon:
            moves = [move * epsilon / length for move in moves]
    values = [
        min(max(float(o) + move, 0.0), 1.0) for o, move in zip(x.flatten(), moves, strict=True)
    ]
    return torch.tensor(values, dtype=x.dtype).view_as(x)


def step(point, slope, length, norm):
    """A step of this length, along the signs or along the slope."""
    values = slope.flatten().tolist()
    if norm == "linf":
        move = [length * ((value > 0) - (value < 0)) for value in values]
    else:
        size = math.sqrt(sum(value**2 for value in values))
        move = [length * value / size for value in values]
    return point + torch.tensor(move, dtype=point.dtype).view_as(point)


def pgd_path(model, x, y, start, *, epsilon, norm, lengths):
    """Madry et al. 2018: all points from the start to the end."""
    path = [start]
    for length in lengths:
        _, slope = loss_and_slope(model, path[-1], y, cross_entropy)
        path.append(projected(step(path[-1], slope, length, norm), x, epsilon, norm))
    return path


def apgd_path(model, x, y, start, *, epsilon, norm, num_steps, criterion):
    """Croce & Hein 2020, algorithm 1: the points that are evaluated."""
    fractions = [0.0, 0.22]
    while fractions[-1] < 1:
        fractions.append(fractions[-1] + max(fractions[-1] - fractions[-2] - 0.03, 0.06))
    weights = [math.ceil(round(fraction * num_steps, 9)) for fraction in fractions if fraction <= 1]

    evaluated = [start]
    points = [start]  # x(k), after the returns to the best point
    values = [loss_and_slope(model, start, y, criterion)[0]]
    best, largest = start, values[0]
    eta, etas, bests = 2 * epsilon, {0: 2 * epsilon}, {0: values[0]}
    for k in range(num_steps):
        _, slope = loss_and_slope(model, points[k], y, criterion)
        z = projected(step(points[k], slope, eta, norm), x, epsilon, norm)
        new = z
        if k > 0:
            mixed = points[k] + 0.75 * (z - points[k]) + 0.25 * (points[k] - points[k - 1])
            new = projected(mixed, x, epsilon, norm)
        evaluated.append(new)
        value = loss_and_slope(model, new, y, criterion)[0]
        rose = [
            later > earlier for earlier, later in zip(values, values[1:] + [value], strict=True)
        ]
        if value > largest:
            best, largest = new, value
        points.append(new)
        values.append(value)
        if k + 1 in weights[1:]:
            before = weights[weights.index(k + 1) - 1]
            stalls = sum(rose[before : k + 1]) < 0.75 * (k + 1 - before)
            same = etas[before] == eta and bests[before] == largest
            etas[k + 1], bests[k + 1] = eta, largest
            if stalls or same:
                eta = eta / 2
                points[k + 1], values[k + 1] = best, largest
    return evaluated
