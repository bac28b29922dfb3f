"""Slow twins of the density paper's terms: loops only, written from the papers' text."""

import math

import torch

from tests.reference.terms import input_gradient, logit_of, loss_of


def log_density_of(logits, y):
    """Density paper, equation 3: log of the sum of exponentials; the class does not matter."""
    top = max(logits)
    return top + math.log(sum(math.exp(value - top) for value in logits))


def density(model, batch, p):
    """Density paper, equations 4 and 17: the p-norm of the gradient of the log-density."""
    norms = []
    for x, y in zip(batch.x, batch.y.tolist(), strict=True):
        gradient = input_gradient(model, x, y, log_density_of).flatten().tolist()
        if p == math.inf:
            norms.append(max(abs(g) for g in gradient))
        else:
            norms.append(sum(abs(g) ** p for g in gradient) ** (1 / p))
    return norms


def score_matching(model, batch, moves, epsilon, stability):
    """Srinivas & Fleuret 2021: trace, half the squared gradient, stabiliser; moves (K, N, *S)."""
    values = []
    for n in range(len(batch.x)):
        x, y = batch.x[n], int(batch.y[n])
        with torch.no_grad():
            own = model(x[None])[0, y].item()
            rises = []
            for move in moves:
                for sign in (1, -1):
                    rises.append(model((x + sign * move[n])[None])[0, y].item() - own)
        trace = 2 / epsilon**2 * sum(rises) / len(rises)
        gradient = input_gradient(model, x, y, logit_of)
        size = sum(float(g) ** 2 for g in gradient.flatten())
        values.append(trace + size / 2 + stability * trace**2)
    return values


def attacked_loss(model, batch, points):
    """Madry et al. 2018: the loss at given points (N, *S)."""
    with torch.no_grad():
        return [
            loss_of(model(point[None])[0].tolist(), y)
            for point, y in zip(points, batch.y.tolist(), strict=True)
        ]
