"""The search for words with loops: how well presence tells a class, and where words stand."""

import numpy as np
import torch


def slow_presence_strengths(presence, labels):
    known = sorted(set(labels.tolist()))
    result = np.zeros((len(known), presence.shape[1]))
    for row, label in enumerate(known):
        for word in range(presence.shape[1]):
            rates = {
                one: np.mean([presence[n, word] for n in range(len(labels)) if labels[n] == one])
                for one in known
            }
            others = [rates[one] for one in known if one != label]
            result[row, word] = rates[label] - sum(others) / len(others)
    return result


def slow_locate_words(x, groups, starts):
    mask = torch.zeros(x.shape)
    for row, text in enumerate(x.tolist()):
        for group in groups:
            places = {}
            for word in group:
                for at in range(len(text) - len(word) + 1):
                    behind = text[at + len(word)] if at + len(word) < len(text) else -1
                    ends = behind < 0 or starts is None or bool(starts[behind])
                    if tuple(text[at : at + len(word)]) == tuple(word) and ends:
                        places.setdefault(word, []).append(at)
            if len(places) == len(group):
                for word, found in places.items():
                    for at in found:
                        mask[row, at : at + len(word)] = 1
    return mask
