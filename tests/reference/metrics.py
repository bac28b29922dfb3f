"""Slow twins of the metrics: loops only, written from their definitions."""

import math

import torch

from rightreasons.core.rng import sample_noise


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
    fractions = {g: sum(found) / len(found) for g, found in by_group.items()}
    weighted = sum(train_counts[g] * fraction for g, fraction in fractions.items())
    return {
        "average": sum(fractions.values()) / len(fractions),
        "worst": min(fractions.values()),
        "weighted": weighted / sum(train_counts[g] for g in fractions),
        **{str(g): fraction for g, fraction in fractions.items()},
        **{f"{g}/n": float(len(found)) for g, found in by_group.items()},
    }


def calibration_error(logits, y, num_bins):
    """The sum of gaps over the bins ((b - 1) / B, b / B]."""
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
    """One backward pass for each sample; samples without a mask or a gradient are left out."""
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
        positions, offers = (
            [p for p in indices(shape) if one[p] > 0 and one[p] >= one.max() / 2]
            for one in (own, other)
        )
        if not offers:
            continue
        for k, position in enumerate(positions):
            source = offers[k * len(offers) // len(positions)]
            for channel in range(x.shape[1]) if shared else [None]:
                to = position if channel is None else (channel, *position[1:])
                origin = source if channel is None else (channel, *source[1:])
                fraction = float(own[position])
                result[n][to] = (1 - fraction) * x[n][to] + fraction * donor_x[n][origin]
    return result


def indices(shape):
    """All index tuples, in reading order."""
    positions = [()]
    for size in shape:
        positions = [(*position, step) for position in positions for step in range(size)]
    return positions


def swap_accuracy(correct, y, before, changed, ways=()):
    """From right or wrong, ``correct[sample][draw]``: overall, by class, the cost and by way."""
    answers = [answer for draws in correct for answer in draws]
    by_class = {}
    for draws, label in zip(correct, y.tolist(), strict=True):
        by_class.setdefault(label, []).extend(draws)
    fractions = {label: sum(found) / len(found) for label, found in by_class.items()}
    values = {
        "": sum(answers) / len(answers),
        "average": sum(fractions.values()) / len(fractions),
        "worst": min(fractions.values()),
        **{f"class/{label}": fraction for label, fraction in fractions.items()},
        "changed": sum(sum(draws) for draws in changed) / len(answers),
    }
    rows = [row for row, draws in enumerate(changed) if any(draws)]
    if rows:
        values["before"] = sum(before[row] for row in rows) / len(rows)
        after = sum(sum(correct[row]) / len(correct[row]) for row in rows) / len(rows)
        values["cost"] = values["before"] - after
    for number, way in enumerate(ways):
        found = [
            correct[row][draw]
            for row in range(len(correct))
            for draw in range(number, len(correct[row]), len(ways))
            if changed[row][draw]
        ]
        if found:
            values[way] = sum(found) / len(found)
    return values


def removed(image, mask):
    """One image ``(C, H, W)`` whose masked pixels take the mean of unmasked ones around them."""
    channels, height, width = image.shape
    result, mask = image.clone(), mask.expand_as(image)
    reach = [(max(size // 2, 1) | 1) // 2 for size in (height, width)]
    for c, i, j in indices((channels, height, width)):
        kept = [(k, m) for k in range(height) for m in range(width) if float(mask[c, k, m]) < 0.5]
        near = [(k, m) for k, m in kept if abs(k - i) <= reach[0] and abs(m - j) <= reach[1]]
        everything = [(k, m) for k in range(height) for m in range(width)]
        values = [float(image[c, k, m]) for k, m in near or kept or everything]
        weight = float(mask[c, i, j])
        result[c, i, j] = (1 - weight) * image[c, i, j] + weight * sum(values) / len(values)
    return result


def presence_gap(y, carries):
    """How far classes are apart in how often their samples carry a mask."""
    shares = []
    for label in set(y):
        members = [carried for carried, other in zip(carries, y, strict=True) if other == label]
        shares.append(sum(members) / len(members))
    return max(shares) - min(shares)


def layers_of(net):
    """The weights and biases of a net of linear layers with ReLU between them."""
    linear = [module for module in net.modules() if isinstance(module, torch.nn.Linear)]
    return [(layer.weight.tolist(), layer.bias.tolist()) for layer in linear]


def product(low, high, low_other, high_other):
    ends = [a * b for a in (low, high) for b in (low_other, high_other)]
    return min(ends), max(ends)


def softmax_interval(lows, highs):
    """Each probability is largest if its own logit is highest and all others are lowest."""
    result = []
    for k in range(len(lows)):
        worst = [high if j != k else lows[k] for j, high in enumerate(highs)]
        best = [low if j != k else highs[k] for j, low in enumerate(lows)]
        result.append((probabilities(worst)[k], probabilities(best)[k]))
    return result


def gradient_interval(net, lows, highs, label, *, target):
    """Interval arithmetic on numbers, layer by layer forward and then backward."""
    layers, slopes = layers_of(net), []
    values = list(zip(lows, highs, strict=True))
    for number, (weight, bias) in enumerate(layers):
        new = []
        for row, shift in zip(weight, bias, strict=True):
            pairs = [product(w, w, *value) for w, value in zip(row, values, strict=True)]
            new.append((shift + sum(p[0] for p in pairs), shift + sum(p[1] for p in pairs)))
        values = new
        if number < len(layers) - 1:
            slopes.append([(float(low > 0), float(high > 0)) for low, high in values])
            values = [(max(low, 0.0), max(high, 0.0)) for low, high in values]
    if target == "loss":
        chances = softmax_interval([v[0] for v in values], [v[1] for v in values])
        back = [(low - (k == label), high - (k == label)) for k, (low, high) in enumerate(chances)]
    else:
        back = [(float(k == label), float(k == label)) for k in range(len(values))]
    for number in reversed(range(len(layers))):
        weight, _ = layers[number]
        new = []
        for column in range(len(weight[0])):
            pairs = [product(w[column], w[column], *g) for w, g in zip(weight, back, strict=True)]
            new.append((sum(p[0] for p in pairs), sum(p[1] for p in pairs)))
        back = new
        if number:
            pairs = zip(slopes[number - 1], back, strict=True)
            back = [product(*slope, *gradient) for slope, gradient in pairs]
    return back


def box_of(x, mask, epsilon, valid_range):
    """The interval of each feature, which always holds its value."""
    low, high = valid_range
    lows = [min(v, max(low, v - epsilon * m)) for v, m in zip(x, mask, strict=True)]
    highs = [max(v, min(high, v + epsilon * m)) for v, m in zip(x, mask, strict=True)]
    return lows, highs


def gradient_fragility(net, batch, *, epsilon, valid_range):
    """Mean and largest width of the loss gradient, of masked and of all other features."""
    means, largest, core_means, core_largest = [], [], [], []
    for x, y, mask in zip(batch.x.tolist(), batch.y.tolist(), batch.mask.tolist(), strict=True):
        if not any(mask):
            continue
        others = [1 - m for m in mask]
        for marks, mean, most in ((mask, means, largest), (others, core_means, core_largest)):
            box = box_of(x, marks, epsilon, valid_range)
            widths = [u - low for low, u in gradient_interval(net, *box, y, target="loss")]
            weighed = [m * width for m, width in zip(marks, widths, strict=True)]
            mean.append(sum(weighed) / sum(marks))
            most.append(max(weighed))
    mean, core = sum(means) / len(means), sum(core_means) / len(core_means)
    result = {"": mean, "max": max(largest), "core": core, "core_max": max(core_largest)}
    return {**result, "ratio": mean / core, "n": float(len(means))}


def certified_change(net, batch, *, epsilon, valid_range):
    """The distance each feature can move, times the largest slope of the label's logit."""
    changes = []
    for x, y, mask in zip(batch.x.tolist(), batch.y.tolist(), batch.mask.tolist(), strict=True):
        if any(mask):
            lows, highs = box_of(x, mask, epsilon, valid_range)
            bounds = gradient_interval(net, lows, highs, y, target="logit")
            ends = zip(x, lows, highs, bounds, strict=True)
            steps = [max(u - v, v - low) * max(map(abs, slope)) for v, low, u, slope in ends]
            changes.append(sum(steps))
    mean = sum(changes) / len(changes)
    return {"": mean, "max": max(changes), "n": float(len(changes))}


def relative_core_sensitivity(model, batch, *, noise, num_draws, seed):
    """One sample and one draw at a time; features are from 0 to 1."""
    masked, core = [], []
    for n in range(len(batch.x)):
        if not bool(batch.mask[n].any()):
            continue
        drawn = sample_noise(
            torch.tensor([n]), batch.x.shape[1:], num_draws=num_draws, seed=seed, kind="normal"
        )
        for z in drawn[:, 0]:
            for answers, where in ((masked, batch.mask[n]), (core, 1 - batch.mask[n])):
                row = model((batch.x[n] + noise * z * where)[None])[0].tolist()
                answers.append(prediction(row) == int(batch.y[n]))
    first, second = sum(masked) / len(masked), sum(core) / len(core)
    mean = (first + second) / 2
    score = (first - second) / (2 * min(mean, 1 - mean))
    size = float(len(masked) / num_draws)
    return {"": score, "masked_noisy": first, "core_noisy": second, "n": size}


def saliency_map(model, x, y):
    """The absolute gradient of the label's logit, summed over channels: rows of a picture."""
    single = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(single[None])[0, y], single)
    _, height, width = x.shape
    return [
        [sum(abs(float(gradient[c, i, j])) for c in range(len(x))) for j in range(width)]
        for i in range(height)
    ]


def scaled(picture):
    largest = max(max(row) for row in picture)
    return [[value / largest for value in row] for row in picture]


def flat(picture):
    return [value for row in picture for value in row]


def cosine(one, other):
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / math.sqrt(sum(a * a for a in one)) / math.sqrt(sum(b * b for b in other))


def pearson(one, other):
    one_mean, other_mean = sum(one) / len(one), sum(other) / len(other)
    return cosine([a - one_mean for a in one], [b - other_mean for b in other])


def ssim(one, other, *, window=7, sigma=1.5):
    """Pixel by pixel under the window, zeros beyond the edges; the range is the first map's."""
    half = window // 2
    bell = [math.exp(-((k - half) ** 2) / (2 * sigma**2)) for k in range(window)]
    bell = [value / sum(bell) for value in bell]
    height, width = len(one), len(one[0])
    spread = max(flat(one)) - min(flat(one))
    small, large = (0.01 * spread) ** 2, (0.03 * spread) ** 2

    def mean(value, i, j):
        total = 0.0
        for k in range(window):
            for m in range(window):
                row, column = i + k - half, j + m - half
                if 0 <= row < height and 0 <= column < width:
                    total += bell[k] * bell[m] * value(row, column)
        return total

    values = []
    for i in range(height):
        for j in range(width):
            first = mean(lambda r, c: one[r][c], i, j)
            second = mean(lambda r, c: other[r][c], i, j)
            variance = mean(lambda r, c: one[r][c] ** 2, i, j) - first**2
            other_variance = mean(lambda r, c: other[r][c] ** 2, i, j) - second**2
            covariance = mean(lambda r, c: one[r][c] * other[r][c], i, j) - first * second
            above = (2 * first * second + small) * (2 * covariance + large)
            below = (first**2 + second**2 + small) * (variance + other_variance + large)
            values.append(above / below)
    return sum(values) / len(values)


def rps(model, batch, *, epsilon, num_draws, seed, valid_range):
    """One sample and one draw at a time: cosine, correlation and SSIM."""
    values = []
    for n in range(len(batch.x)):
        own = scaled(saliency_map(model, batch.x[n], batch.y[n]))
        drawn = sample_noise(torch.tensor([n]), batch.x.shape[1:], num_draws=num_draws, seed=seed)
        for u in drawn[:, 0].to(batch.x):
            moved = (batch.x[n] + epsilon * (2 * u - 1)).clamp(*valid_range)
            other = scaled(saliency_map(model, moved, batch.y[n]))
            pair = flat(own), flat(other)
            values.append((cosine(*pair), pearson(*pair), ssim(own, other)))
    return [sum(column) / len(values) for column in zip(*values, strict=True)]


def insertion(model, batch, *, maps, ratios, baseline, deletes=False):
    """One image and one ratio at a time: the mean probability of the label at each ratio."""
    curve = []
    for ratio in ratios:
        found = []
        for x, y, picture in zip(batch.x, batch.y.tolist(), maps, strict=True):
            height, width = x.shape[1:]
            positions = sorted(indices((height, width)), key=lambda p: -picture[p[0]][p[1]])
            first = positions[: round(ratio * height * width)]
            rebuilt = x.clone() if deletes else torch.empty_like(x)
            for c in range(len(x)):
                for i, j in indices((height, width)):
                    if ((i, j) in first) == deletes:
                        rebuilt[c, i, j] = baseline[c]
                    else:
                        rebuilt[c, i, j] = x[c, i, j]
            found.append(probabilities(model(rebuilt[None])[0].tolist())[y])
        curve.append(sum(found) / len(found))
    return curve


def robust_criterion(model, batch, *, epsilon, num_draws, num_projections, seed, valid_range):
    """With the whole Hessian of one sample after the other."""
    table = []
    for n in range(len(batch.x)):
        x, y, shape = batch.x[n], batch.y[n], batch.x.shape[1:]

        def logit(given, y=y, shape=shape):
            return model(given.reshape(1, *shape))[0, y]

        hessian = torch.autograd.functional.hessian(logit, x.flatten())
        own = torch.autograd.functional.jacobian(logit, x.flatten())
        position = torch.tensor([n])
        drawn = sample_noise(
            position, shape, num_draws=num_projections, seed=seed + 1, kind="normal"
        ).to(x)
        squares = [float((hessian @ v.flatten()).square().sum()) for v in drawn[:, 0]]
        size = math.sqrt(sum(squares) / len(squares))
        for u in sample_noise(position, shape, num_draws=num_draws, seed=seed)[:, 0].to(x):
            moved = (x + epsilon * (2 * u - 1)).clamp(*valid_range)
            delta = (moved - x).flatten()
            other = torch.autograd.functional.jacobian(logit, moved.flatten())
            table.append(
                {
                    "": (1 - cosine(other.tolist(), own.tolist())) / 2,
                    "l2": float((other - own).norm()),
                    "bound": float(delta.norm()) * size / float(other.norm()),
                    "directional_bound": float((hessian @ delta).norm() / other.norm()),
                }
            )
    return {key: sum(row[key] for row in table) / len(table) for key in table[0]}
