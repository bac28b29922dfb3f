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


def masked_gradient(model, x, y, mask):
    """Mask times the gradient of the loss, for one sample."""
    return mask.expand_as(x) * input_gradient(model, x, y, loss_of)


def smooth_r3(model, batch, noise):
    """R4 paper, section 5: R3 on the mean gradient over noisy copies (SmoothGrad)."""
    penalties = []
    for n in range(len(batch.x)):
        x, y, mask = batch.x[n], int(batch.y[n]), batch.mask[n]
        total = torch.zeros_like(x)
        for copy in noise:
            total += masked_gradient(model, x + copy[n], y, mask)
        penalties.append(sum((float(g) / len(noise)) ** 2 for g in total.flatten()))
    return penalties


def r4_over(model, batch, points, change=False):
    """R4 paper, equation 3, with the maximum over given points: (K, N, *S)."""
    penalties = []
    for n in range(len(batch.x)):
        x, y, mask = batch.x[n], int(batch.y[n]), batch.mask[n]
        nominal = masked_gradient(model, x, y, mask)
        largest = 0.0
        for copy in points:
            gradient = masked_gradient(model, copy[n], y, mask)
            if change:
                gradient = gradient - nominal
            largest = max(largest, sum(float(g) ** 2 for g in gradient.flatten()))
        penalties.append(largest)
    return penalties


def climb_masked_gradient(model, x, y, mask, start, epsilon, num_steps, step):
    """R4 paper, section 4.2.2, one sample: signed steps up the penalty, the best point kept."""

    def penalty(point):
        point = point.clone().requires_grad_()
        loss = torch.nn.functional.cross_entropy(model(point[None]), torch.tensor([y]))
        (gradient,) = torch.autograd.grad(loss, point, create_graph=True)
        return point, (mask.expand_as(x) * gradient).square().sum()

    point, best, largest = start.clone(), start.clone(), -1.0
    for number in range(num_steps + 1):
        leaf, value = penalty(point)
        if value.item() > largest:
            best, largest = point.clone(), value.item()
        if number == num_steps:
            break
        (slope,) = torch.autograd.grad(value, leaf)
        for place in range(x.numel()):
            m = float(mask.expand_as(x).flatten()[place])
            low = max(float(x.flatten()[place]) - epsilon * m, 0.0)
            high = min(float(x.flatten()[place]) + epsilon * m, 1.0)
            sign = float(torch.sign(slope.flatten()[place]))
            moved = float(point.flatten()[place]) + step * (high - low) * sign
            point.view(-1)[place] = min(max(moved, low), high)
    return best, largest
