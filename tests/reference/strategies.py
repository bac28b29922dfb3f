"""Slow twins of what strategies work out: loops only, written from the papers' text."""

import math


def deviations_mask(heat, k, positive):
    """1 where a map, a list of rows, exceeds its mean plus ``k`` standard deviations."""
    values = [value for row in heat for value in row if value > 0 or not positive]
    if not values:
        return [[0.0 for _ in row] for row in heat]
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return [[float(value > mean + k * deviation) for value in row] for row in heat]


def top_mask(heat, share):
    """1 at the hottest share of the pixels, at least one, if they are hot at all."""
    places = [(row, column) for row in range(len(heat)) for column in range(len(heat[0]))]
    count = max(int(share * len(places)), 1)
    hottest = sorted(places, key=lambda place: -heat[place[0]][place[1]])[:count]
    mask = [[0.0 for _ in row] for row in heat]
    for row, column in hottest:
        mask[row][column] = float(heat[row][column] > 0)
    return mask


def soft_mask(heat):
    """Each pixel by its heat over the largest."""
    largest = max(value for row in heat for value in row)
    return [[value / largest if largest > 0 else 0.0 for value in row] for row in heat]


def covered(image, mask):
    """What is left of an image, a list of channels, where the mask is not 1."""
    return [
        [
            [value if not mask[row][column] else 0.0 for column, value in enumerate(line)]
            for row, line in enumerate(channel)
        ]
        for channel in image
    ]


def mutual_information(first, second):
    """Of two heads, lists of probabilities by sample, in nats."""
    num_classes, size = len(first[0]), len(first)
    joint = [
        [
            sum(p[i] * q[j] for p, q in zip(first, second, strict=True)) / size
            for j in range(num_classes)
        ]
        for i in range(num_classes)
    ]
    rows = [sum(row) for row in joint]
    columns = [sum(row[j] for row in joint) for j in range(num_classes)]
    return sum(
        joint[i][j] * math.log(joint[i][j] / (rows[i] * columns[j]))
        for i in range(num_classes)
        for j in range(num_classes)
        if joint[i][j] > 0
    )


def relative_difficulty(biased, debiased, y, q):
    """Generalised cross-entropy of one model plus weighted cross-entropy of the other."""
    losses = []
    for one, other, label in zip(biased, debiased, y, strict=True):
        p = math.exp(one[label]) / sum(map(math.exp, one))
        r = math.exp(other[label]) / sum(map(math.exp, other))
        weight = math.log(p) / (math.log(p) + math.log(r))
        losses.append((1 - p**q) / q - weight * math.log(r))
    return losses


def cvar(losses, alpha):
    """The largest weighted mean of losses when no weight may exceed 1 / (alpha N)."""
    left, total = 1.0, 0.0
    for loss in sorted(losses, reverse=True):
        weight = min(1 / (alpha * len(losses)), left)
        total += weight * loss
        left -= weight
    return total
