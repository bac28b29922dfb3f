"""Slow twins of the loss terms: loops only, written from the papers' text."""

import math

import torch


def cross_entropy(logits, y):
    """Each sample's negative log-probability of its label."""
    losses = []
    for row, label in zip(logits.tolist(), y.tolist(), strict=True):
        top = max(row)
        total = sum(math.exp(value - top) for value in row)
        losses.append(math.log(total) + top - row[label])
    return losses


def input_gradient(model, x, y, target):
    """The gradient of one scalar for one sample, by central differences on every feature."""
    step = 1e-6
    gradient = torch.zeros_like(x)
    for place in range(x.numel()):
        values = []
        for sign in (1, -1):
            moved = x.clone()
            moved.view(-1)[place] += sign * step
            with torch.no_grad():
                values.append(target(model(moved[None])[0].tolist(), y))
        gradient.view(-1)[place] = (values[0] - values[1]) / (2 * step)
    return gradient


def loss_of(logits, y):
    return cross_entropy(torch.tensor([logits], dtype=torch.float64), torch.tensor([y]))[0]


def logit_of(logits, y):
    return logits[y]


def r3(model, batch):
    """R4 paper, section 3: the squared 2-norm of mask times gradient of the loss."""
    penalties = []
    for x, y, mask in zip(batch.x, batch.y.tolist(), batch.mask, strict=True):
        gradient = input_gradient(model, x, y, loss_of)
        weight = mask.expand_as(x)
        penalties.append(
            sum(
                float(m * g) ** 2 for m, g in zip(weight.flatten(), gradient.flatten(), strict=True)
            )
        )
    return penalties


def input_gradient_norm(model, batch):
    """Density paper, section 3.3: the Frobenius norm of the gradient of the label's logit."""
    norms = []
    for x, y in zip(batch.x, batch.y.tolist(), strict=True):
        gradient = input_gradient(model, x, y, logit_of)
        norms.append(math.sqrt(sum(float(g) ** 2 for g in gradient.flatten())))
    return norms


def weight_decay(model):
    """The sum of squares of every trainable number."""
    return sum(
        value.item() ** 2 for parameter in model.parameters() for value in parameter.flatten()
    )


def group_dro(losses, groups, weights, step_size):
    """One step of Sagawa et al., algorithm 1, on a batch: new group weights and the objective."""
    means = []
    for group in range(len(weights)):
        own = [loss for loss, g in zip(losses, groups, strict=True) if g == group]
        means.append(sum(own) / len(own) if own else 0.0)
    raised = [
        weight * math.exp(step_size * mean) for weight, mean in zip(weights, means, strict=True)
    ]
    total = sum(raised)
    weights = [weight / total for weight in raised]
    return weights, sum(weight * mean for weight, mean in zip(weights, means, strict=True))
