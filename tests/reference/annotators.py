"""Slow twins of the pseudo-annotator: loops only, written from the papers' text.

Masks and images of one channel are lists of rows of numbers.
"""

import math


def pixels(*masks):
    """The values of several masks, pixel by pixel."""
    for rows in zip(*masks, strict=True):
        yield from zip(*rows, strict=True)


def dice(soft, mask, smoothing):
    both = total = 0.0
    for p, m in pixels(soft, mask):
        both += p * m
        total += p + m
    return (2 * both + smoothing) / (total + smoothing)


def iou(soft, mask):
    both = either = 0.0
    for p, m in pixels(soft, mask):
        both += min(p, m)
        either += max(p, m)
    return both / either if either else 1.0


def cut(mask):
    return [[1.0 if value > 0.5 else 0.0 for value in row] for row in mask]


def outside(mask):
    return [[1 - value for value in row] for row in mask]


def calibration_error(softs, masks, num_bins):
    """Over all pixels of all samples, in bins of equal width."""
    bins = [[] for _ in range(num_bins)]
    for soft, mask in zip(softs, masks, strict=True):
        for p, m in pixels(soft, mask):
            bins[min(int(p * num_bins), num_bins - 1)].append((p, m))
    count = sum(map(len, bins))
    error = 0.0
    for members in filter(None, bins):
        predicted = sum(p for p, _ in members) / len(members)
        true = sum(m for _, m in members) / len(members)
        error += len(members) / count * abs(predicted - true)
    return error


def entropy(soft):
    """The mean over pixels, in bits."""
    values = []
    for (p,) in pixels(soft):
        parts = [q * math.log2(q) for q in (p, 1 - p) if q > 0]
        values.append(-sum(parts))
    return sum(values) / len(values)


def segmentation(soft, mask, smoothing):
    losses = [-(m * math.log(p) + (1 - m) * math.log(1 - p)) for p, m in pixels(soft, mask)]
    inside = dice(soft, mask, smoothing)
    rest = dice(outside(soft), outside(mask), smoothing)
    return sum(losses) / len(losses) + 1 - (inside + rest) / 2


def mean_log(judged, *, by_hand):
    """Of a discriminator's logits: the mean of log D, or of log(1 - D), over patches."""
    logs = []
    for (logit,) in pixels(judged):
        probability = 1 / (1 + math.exp(-logit))
        logs.append(math.log(probability if by_hand else 1 - probability))
    return sum(logs) / len(logs)


def pix2pix(soft, mask, judged_soft, judged_mask, l1_weight):
    """Both sides of the game: the generator's loss, and the discriminator's."""
    distances = [abs(p - m) for p, m in pixels(soft, mask)]
    generator = -mean_log(judged_soft, by_hand=True)
    generator += l1_weight * sum(distances) / len(distances)
    real, made = mean_log(judged_mask, by_hand=True), mean_log(judged_soft, by_hand=False)
    return generator, -(real + made) / 2


def spread_order(uncertainty, features, num):
    """The most uncertain, then the largest product with the distance to the nearest chosen."""
    chosen = [max(range(len(uncertainty)), key=lambda n: (uncertainty[n], -n))]
    while len(chosen) < min(num, len(uncertainty)):
        scores = {
            n: uncertainty[n] * min(math.dist(features[n], features[s]) for s in chosen)
            for n in range(len(uncertainty))
            if n not in chosen
        }
        chosen.append(max(scores, key=lambda n: (scores[n], -n)))
    return chosen
