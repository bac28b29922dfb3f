"""Slow twins of selective classification: loops only, written from the papers' text."""

import itertools
import math


def softmax(logits):
    powers = [math.exp(value - max(logits)) for value in logits]
    return [power / sum(powers) for power in powers]


def orders(scores):
    """Every order by falling confidence; samples of equal confidence take all orders."""
    blocks = [
        [sample for sample, score in enumerate(scores) if score == value]
        for value in sorted(set(scores), reverse=True)
    ]
    for parts in itertools.product(*(itertools.permutations(block) for block in blocks)):
        yield [sample for part in parts for sample in part]


def risk_area(scores, correct):
    """The mean over k of the error among the k most confident; the mean over orders."""
    areas = []
    for order in orders(scores):
        errors, risks = 0, []
        for number, sample in enumerate(order, start=1):
            errors += not correct[sample]
            risks.append(errors / number)
        areas.append(sum(risks) / len(risks))
    return sum(areas) / len(areas)


def error_at(scores, correct, num_kept, group=None, wanted=None):
    """Errors among the most confident, in one group if given: mean (errors, samples)."""
    errors, samples, count = 0.0, 0.0, 0
    for order in orders(scores):
        count += 1
        for sample in order[:num_kept]:
            if wanted is None or group[sample] == wanted:
                samples += 1
                errors += not correct[sample]
    return errors / count, samples / count


def deep_gamblers(logits, y, reward):
    """Liu et al. 2019, for one sample's K + 1 logits: the doubling rate lost beside a sure win.

    A bet on the label pays ``reward`` times, money kept pays once.
    """
    chances = softmax(logits)
    money = reward * chances[y] + chances[-1]
    return math.log(reward) - math.log(money)


def selective_net(logits, selection, auxiliary, y, *, coverage, weight, alpha):
    """Geifman and El-Yaniv 2019, equations 2 to 5, for a batch: the loss itself."""
    size = len(y)
    selected = [1 / (1 + math.exp(-value)) for value in selection]
    empirical_coverage = sum(selected) / size
    risk = 0.0
    auxiliary_risk = 0.0
    for n in range(size):
        risk += -math.log(softmax(logits[n])[y[n]]) * selected[n] / size
        auxiliary_risk += -math.log(softmax(auxiliary[n])[y[n]]) / size
    penalty = max(0.0, coverage - empirical_coverage) ** 2
    selective = risk / empirical_coverage + weight * penalty
    return alpha * selective + (1 - alpha) * auxiliary_risk


def one_sided(logits, y, mu):
    """Gangrade et al. 2021 over all of a data set: the mean over classes of one-sided risks."""
    num_classes = len(logits[0])
    total = 0.0
    for k in range(num_classes):
        inside = [n for n in range(len(y)) if y[n] == k]
        outside = [n for n in range(len(y)) if y[n] != k]
        total += sum(-math.log(softmax(logits[n])[k]) for n in inside) / len(inside)
        total += mu * sum(-math.log(1 - softmax(logits[n])[k]) for n in outside) / len(outside)
    return total / num_classes
