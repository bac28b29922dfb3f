"""Slow twins of the density paper's measures: loops only, written from the paper's text."""

import math

import torch

from rightreasons.core.rng import sample_noise
from tests.reference.density import log_density_of
from tests.reference.metrics import indices, prediction, probabilities
from tests.reference.terms import input_gradient, logit_of


def length(values):
    return math.sqrt(sum(value**2 for value in values))


def pixel_perturbation(model, batch, *, maps, ratios, baseline):
    """Section 7.3: the fractional change of the predicted logit without the top or bottom pixels.

    One image and one ratio at a time; means over samples, ``(tops, bottoms)``, at each ratio.
    """
    curves = []
    for most_first in (True, False):
        curve = []
        for ratio in ratios:
            changes = []
            for x, picture in zip(batch.x, maps, strict=True):
                height, width = x.shape[1:]
                positions = indices((height, width))
                positions.sort(
                    key=lambda p, picture=picture: picture[p[0]][p[1]], reverse=most_first
                )
                left = x.clone()
                for i, j in positions[: round(ratio * height * width)]:
                    for c in range(len(x)):
                        left[c, i, j] = baseline[c]
                with torch.no_grad():
                    before, after = model(x[None])[0].tolist(), model(left[None])[0].tolist()
                label = prediction(before)
                if before[label] != 0:
                    changes.append(abs(before[label] - after[label]) / abs(before[label]))
            curve.append(sum(changes) / len(changes))
        curves.append(curve)
    return curves


def feature_leakage(model, batch, *, num_steps, baseline):
    """Equation 9 from a baseline, by midpoints of equal steps: mean length and mean fraction."""
    lengths, fractions = [], []
    for x, y, mask in zip(batch.x, batch.y.tolist(), batch.mask, strict=True):
        marks = mask.expand_as(x).flatten().tolist()
        if not any(marks):
            continue
        slopes = [0.0] * x.numel()
        for step in range(num_steps):
            alpha = (step + 0.5) / num_steps
            point = (baseline + alpha * (x - baseline)).requires_grad_()
            (gradient,) = torch.autograd.grad(model(point[None])[0, y], point)
            for position, slope in enumerate(gradient.flatten().tolist()):
                slopes[position] += slope / num_steps
        ways = [value - baseline for value in x.flatten().tolist()]
        attribution = [way * slope for way, slope in zip(ways, slopes, strict=True)]
        inside = [mark * value for mark, value in zip(marks, attribution, strict=True)]
        lengths.append(length(inside))
        total = sum(abs(value) for value in attribution)
        fractions.append(sum(abs(value) for value in inside) / total if total else 0.0)
    return sum(lengths) / len(lengths), sum(fractions) / len(fractions)


def noisy(batch, n, *, deviation, num_draws, seed):
    """A sample with each of its draws added, which are rounded to 1024ths of the deviation."""
    shape = batch.x.shape[1:]
    drawn = sample_noise(torch.tensor([n]), shape, num_draws=num_draws, seed=seed, kind="normal")[
        :, 0
    ]
    copies = []
    for draw in drawn:
        moved = batch.x[n].clone()
        for position in indices(shape):
            moved[position] += deviation * round(1024 * float(draw[position])) / 1024
        copies.append(moved)
    return copies


def gradient_robustness(model, batch, *, deviation, num_draws, seed):
    """Section 7.3: the relative change of the gradient of the label's logit under noise."""
    means = []
    for n, (x, y) in enumerate(zip(batch.x, batch.y.tolist(), strict=True)):
        own = input_gradient(model, x, y, logit_of).flatten().tolist()
        if length(own) == 0:
            continue
        result = []
        for moved in noisy(batch, n, deviation=deviation, num_draws=num_draws, seed=seed):
            other = input_gradient(model, moved, y, logit_of).flatten().tolist()
            gap = [b - a for a, b in zip(own, other, strict=True)]
            result.append(length(gap) / length(own))
        means.append(sum(result) / len(result))
    return sum(means) / len(means)


def density_robustness(model, batch, *, deviation, num_draws, seed):
    """Section 7.3: the sum of exponentials, and the distance of log-densities (equation 3)."""
    sums, distances = [], []
    for n, x in enumerate(batch.x):
        with torch.no_grad():
            own = model(x[None])[0].tolist()
        for moved in noisy(batch, n, deviation=deviation, num_draws=num_draws, seed=seed):
            with torch.no_grad():
                other = model(moved[None])[0].tolist()
            sums.append(sum(math.exp(b - a) for a, b in zip(own, other, strict=True)))
            distances.append(abs(log_density_of(other, None) - log_density_of(own, None)))
    return sum(sums) / len(sums), sum(distances) / len(distances)


def auroc(positive, negative):
    """Every pair is compared; a tie is half a win."""
    wins = 0.0
    for one in positive:
        for other in negative:
            if one > other:
                wins += 1
            elif one == other:
                wins += 0.5
    return wins / (len(positive) * len(negative))


def ood_scores(model, x):
    """Supplement 14: the scores of one sample; higher for samples like the training data."""
    with torch.no_grad():
        logits = model(x[None])[0].tolist()
    gradient = input_gradient(model, x, None, log_density_of)
    return {
        "max_softmax": max(probabilities(logits)),
        "max_logit": max(logits),
        "logsumexp": log_density_of(logits, None),
        "density_gradient": -length(gradient.flatten().tolist()),
    }


def climbed(model, x, y, *, num_steps, step_size, valid_range):
    """Supplement 16: gradient ascent on a logit, in steps of one length, cut to the valid range."""
    low, high = valid_range
    for _ in range(num_steps):
        gradient = input_gradient(model, x, y, logit_of)
        size = length(gradient.flatten().tolist())
        if size == 0:
            return x
        climbing = x.clone()
        for position in indices(x.shape):
            moved = float(x[position]) + step_size * float(gradient[position]) / size
            climbing[position] = min(max(moved, low), high)
        x = climbing
    return x
