"""Slow twins of the metrics: loops only, written from their definitions."""

import math

import torch


def probabilities(row):
    top = max(row)
    powers = [math.exp(value - top) for value in row]
    return [power / sum(powers) for power in powers]


def prediction(row):
    return row.index(max(row))


def right(logits, y):
    pairs = zip(logits.tolist(), y.tolist(), strict=True)
    return [prediction(row) == label for row, label in pairs]


def accuracy(logits, y):
    return sum(right(logits, y)) / len(y)


def group_accuracy(logits, y, group, train_counts):
    """The accuracy of each group, their mean, their minimum, and the mean by training counts."""
    by_group = {}
    for correct, number in zip(right(logits, y), group.tolist(), strict=True):
        if number != -1:
            by_group.setdefault(number, []).append(correct)
    shares = {g: sum(found) / len(found) for g, found in by_group.items()}
    weighted = sum(train_counts[g] * share for g, share in shares.items())
    return {
        "average": sum(shares.values()) / len(shares),
        "worst": min(shares.values()),
        "weighted": weighted / sum(train_counts[g] for g in shares),
        **{str(g): share for g, share in shares.items()},
        **{f"{g}/n": float(len(found)) for g, found in by_group.items()},
    }


def calibration_error(logits, y, num_bins):
    """Walk through the bins ((b - 1) / B, b / B] and add up their gaps."""
    error = 0.0
    for number in range(1, num_bins + 1):
        confidences, hits = [], []
        for row, label in zip(logits.tolist(), y.tolist(), strict=True):
            confidence = max(probabilities(row))
            if (number - 1) / num_bins < confidence <= number / num_bins:
                confidences.append(confidence)
                hits.append(prediction(row) == label)
        if hits:
            gap = abs(sum(hits) / len(hits) - sum(confidences) / len(hits))
            error += len(hits) / len(y) * gap
    return error


def input_gradient_mass(model, batch):
    """One backward pass a sample; samples without a mask or a gradient are left out."""
    masses, areas = [], []
    for x, y, mask in zip(batch.x, batch.y, batch.mask, strict=True):
        single = x.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(model(single[None])[0, y], single)
        marks = mask.expand_as(x).flatten().tolist()
        sizes = [abs(value) for value in gradient.flatten().tolist()]
        if sum(marks) > 0 and sum(sizes) > 0:
            inside = sum(mark * size for mark, size in zip(marks, sizes, strict=True))
            masses.append(inside / sum(sizes))
            areas.append(sum(marks) / len(marks))
    return {
        "": sum(masses) / len(masses),
        "area": sum(areas) / len(areas),
        "n": float(len(masses)),
    }


def transplanted(x, mask, donor_x, donor_mask):
    """Position by position. Images ``(C, H, W)`` with a mask ``(1, H, W)`` move whole pixels."""
    result = x.clone()
    for n in range(len(x)):
        shared = x[n].ndim > 1 and mask.shape[1] == 1 and x.shape[1] != 1
        shape = (1, *x.shape[2:]) if shared else tuple(x.shape[1:])
        own, other = mask[n].expand(shape), donor_mask[n].expand(shape)
        places = [place for place in indices(shape) if own[place] > 0]
        offers = [place for place in indices(shape) if other[place] > 0]
        if not offers:
            continue
        for k, place in enumerate(places):
            source = offers[k * len(offers) // len(places)]
            for channel in range(x.shape[1]) if shared else [None]:
                to = place if channel is None else (channel, *place[1:])
                origin = source if channel is None else (channel, *source[1:])
                share = float(own[place])
                result[n][to] = (1 - share) * x[n][to] + share * donor_x[n][origin]
    return result


def indices(shape):
    """All index tuples, in reading order."""
    places = [()]
    for size in shape:
        places = [(*place, step) for place in places for step in range(size)]
    return places


def swap_accuracy(correct, y):
    """From right or wrong, ``correct[sample][draw]``: overall, by class, and the classes' worst."""
    answers = [answer for draws in correct for answer in draws]
    by_class = {}
    for draws, label in zip(correct, y.tolist(), strict=True):
        by_class.setdefault(label, []).extend(draws)
    shares = {label: sum(found) / len(found) for label, found in by_class.items()}
    return {
        "": sum(answers) / len(answers),
        "average": sum(shares.values()) / len(shares),
        "worst": min(shares.values()),
        **{f"class/{label}": share for label, share in shares.items()},
    }
