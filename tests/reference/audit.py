"""The statistics of the audit, slowly, from their definitions."""

import itertools
import math


def strength(predicted, labels):
    """(balanced accuracy - chance) / (1 - chance)."""
    classes = sorted(set(labels))
    accuracies = []
    for one in classes:
        members = [p for p, y in zip(predicted, labels, strict=True) if y == one]
        accuracies.append(sum(p == one for p in members) / len(members))
    balanced = sum(accuracies) / len(classes)
    chance = 1 / len(classes)
    return (balanced - chance) / (1 - chance)


def p_values_over_all_permutations(columns, labels):
    """For each column the share of all orders in which the best column is as strong."""
    observed = [strength(column, labels) for column in columns]
    reached, total = [0] * len(columns), 0
    for order in itertools.permutations(range(len(labels))):
        shuffled = [labels[place] for place in order]
        largest = max(strength(column, shuffled) for column in columns)
        total += 1
        for number, value in enumerate(observed):
            reached[number] += largest >= value - 1e-12
    return [count / total for count in reached]


def benjamini_hochberg(p_values):
    """For each hypothesis the smallest level at which the procedure rejects it."""
    size = len(p_values)
    adjusted = []
    for value in p_values:
        levels = [
            other * size / sum(one <= other for one in p_values)
            for other in p_values
            if other >= value
        ]
        adjusted.append(min(1.0, *levels))
    return adjusted


def divergence(mean, deviation, other_mean, other_deviation):
    """Kullback-Leibler divergence of two normal distributions."""
    spread = (deviation**2 + (mean - other_mean) ** 2) / (2 * other_deviation**2)
    return math.log(other_deviation / deviation) + spread - 0.5


def distance_at(image, mean, mask, top, left):
    """Weighted mean squared difference of a pattern whose upper left corner is at a place."""
    total = weight = 0.0
    channels, rows, columns = len(image), len(image[0]), len(image[0][0])
    for i in range(len(mask)):
        for j in range(len(mask[0])):
            row, column = top + i, left + j
            if not (0 <= row < rows and 0 <= column < columns):
                continue
            weight += mask[i][j]
            for c in range(channels):
                total += mask[i][j] * (image[c][row][column] - mean[c][i][j]) ** 2 / channels
    return total / weight
