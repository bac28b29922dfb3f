"""Slow twins of the terms on heat maps: loops only, written from the ReFF paper's text."""

import torch

STEP = 1e-6


def grad_cam(head, activation, y):
    """Equations 1 and 2 for one sample's maps (C, h, w); ``head`` goes from them to logits."""
    channels, height, width = activation.shape
    heat = [[0.0] * width for _ in range(height)]
    for k in range(channels):
        alpha = 0.0
        for i in range(height):
            for j in range(width):
                ends = []
                for sign in (1, -1):
                    moved = activation.clone()
                    moved[k, i, j] += sign * STEP
                    with torch.no_grad():
                        ends.append(head(moved[None])[0, y].item())
                alpha += (ends[0] - ends[1]) / (2 * STEP) / (height * width)
        for i in range(height):
            for j in range(width):
                heat[i][j] += alpha * activation[k, i, j].item()
    return [[max(value, 0.0) for value in row] for row in heat]


def resized(heat, height, width):
    """Linear interpolation in both directions, pixels being areas and not points."""

    def place(number, small, large):
        position = max((number + 0.5) * small / large - 0.5, 0.0)
        low = int(position)
        return low, min(low + 1, small - 1), position - low

    result = []
    for i in range(height):
        top, bottom, down = place(i, len(heat), height)
        row = []
        for j in range(width):
            left, right, across = place(j, len(heat[0]), width)
            above = heat[top][left] * (1 - across) + heat[top][right] * across
            below = heat[bottom][left] * (1 - across) + heat[bottom][right] * across
            row.append(above * (1 - down) + below * down)
        result.append(row)
    return result


def cam_terms(net, batch, places):
    """ReFF, equation 3, and supplement B's L1 and L2, with weights 1: a dictionary of lists.

    Args:
        net: A sequence of layers.
        batch: Samples with masks of one channel.
        places: Numbers of the layers whose outputs are looked at.
    """
    values = {"reff": [], "reff_l1": [], "reff_l2": []}
    for x, y, mask in zip(batch.x, batch.y.tolist(), batch.mask, strict=True):
        height, width = mask.shape[1:]
        layers = []
        for place in places:
            with torch.no_grad():
                activation = net[: place + 1](x[None])[0]
            cam = resized(grad_cam(net[place + 1 :], activation, y), height, width)
            total = sum(map(sum, cam))
            sums = {"reff": 0.0, "reff_l1": 0.0, "reff_l2": 0.0}
            for i in range(height):
                for j in range(width):
                    if not total:  # no positive part: it says nothing
                        continue
                    share = cam[i][j] / total
                    relevant = 1 - mask[0, i, j].item()
                    sums["reff"] += (share * (1 - relevant)) ** 2
                    sums["reff_l1"] += abs(share - relevant)
                    sums["reff_l2"] += (share - relevant) ** 2
            layers.append(sums)
        for name in values:
            values[name].append([sums[name] for sums in layers])
    return values


def attention_distance(attention, mask):
    """Supplement B, L_map, for one sample: maps (h, w) and (H, W)."""
    height, width = mask.shape
    large = resized(attention.tolist(), height, width)
    total = 0.0
    for i in range(height):
        for j in range(width):
            total += (large[i][j] - (1 - mask[i, j].item())) ** 2
    return total
