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


def spectral_decoupling(logits, gamma):
    """Pezeshki et al. 2021: half the squared distance of the logits from gamma."""
    return [sum((value - gamma) ** 2 for value in row) / 2 for row in logits.tolist()]


def input_gradient(model, x, y, target):
    """The gradient of one scalar for one sample, by central differences on every feature."""
    step = 1e-6
    gradient = torch.zeros_like(x)
    for index in range(x.numel()):
        values = []
        for sign in (1, -1):
            moved = x.clone()
            moved.view(-1)[index] += sign * step
            with torch.no_grad():
                values.append(target(model(moved[None])[0].tolist(), y))
        gradient.view(-1)[index] = (values[0] - values[1]) / (2 * step)
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
        for index in range(x.numel()):
            m = float(mask.expand_as(x).flatten()[index])
            low = max(float(x.flatten()[index]) - epsilon * m, 0.0)
            high = min(float(x.flatten()[index]) + epsilon * m, 1.0)
            sign = float(torch.sign(slope.flatten()[index]))
            moved = float(point.flatten()[index]) + step * (high - low) * sign
            point.view(-1)[index] = min(max(moved, low), high)
    return best, largest


def cosine(left, right):
    """The cosine of two tensors."""
    pairs = list(zip(left.flatten().tolist(), right.flatten().tolist(), strict=True))
    lengths = [math.sqrt(sum(pair[side] ** 2 for pair in pairs)) for side in (0, 1)]
    return sum(a * b for a, b in pairs) / (lengths[0] * lengths[1])


def squared_distance(left, right):
    """The squared 2-norm of the difference of two tensors."""
    pairs = zip(left.flatten().tolist(), right.flatten().tolist(), strict=True)
    return sum((a - b) ** 2 for a, b in pairs)


def alignment(model, batch, points, distance):
    """Mean distance of logit gradients at samples and at given points (K, N, *S)."""
    distances = []
    for n in range(len(batch.x)):
        y = int(batch.y[n])
        source = input_gradient(model, batch.x[n], y, logit_of)
        total = 0.0
        for copy in points:
            total += distance(input_gradient(model, copy[n], y, logit_of), source)
        distances.append(total / len(points))
    return distances


def l2_alignment(model, batch, points):
    """Alignment paper, l2 robust criterion, squared."""
    return alignment(model, batch, points, squared_distance)


def cosine_alignment(model, batch, points):
    """Alignment paper, definition 4."""
    return alignment(model, batch, points, lambda near, own: 0.5 * (1 - cosine(near, own)))


def hessian_matrix(model, x, y):
    """The Hessian of the label's logit, by central differences of central differences."""
    step, rows = 1e-3, []
    for index in range(x.numel()):
        ends = []
        for sign in (1, -1):
            moved = x.clone()
            moved.view(-1)[index] += sign * step
            ends.append(input_gradient(model, moved, y, logit_of).flatten())
        rows.append((ends[0] - ends[1]) / (2 * step))
    return torch.stack(rows)


def cure(model, batch, h):
    """Moosavi-Dezfooli et al. 2019, equation 5, without the division by h squared."""
    sizes = []
    for n in range(len(batch.x)):
        x, y = batch.x[n], int(batch.y[n])
        own = input_gradient(model, x, y, loss_of)
        signs = [(g > 0) - (g < 0) for g in own.flatten().tolist()]
        length = math.sqrt(sum(sign**2 for sign in signs))
        step = torch.tensor(signs, dtype=x.dtype).view_as(x) * h / length
        near = input_gradient(model, x + step, y, loss_of)
        sizes.append(sum(float(g) ** 2 for g in (near - own).flatten()))
    return sizes


def iga(model, batch, points):
    """Singh et al. 2020: the soft-margin triplet of image, own and rival gradient at points."""
    losses = []
    for n in range(len(batch.x)):
        x, y, point = batch.x[n], int(batch.y[n]), points[n]
        with torch.no_grad():
            logits = model(point[None])[0].tolist()
        rival = max((k for k in range(len(logits)) if k != y), key=lambda k: logits[k])
        own_distance = 1 - cosine(input_gradient(model, point, y, logit_of), x)
        rival_distance = 1 - cosine(input_gradient(model, point, rival, logit_of), x)
        losses.append(math.log(1 + math.exp(-(rival_distance - own_distance))))
    return losses


def integrated_gradients_of_loss(model, x, point, y, num_segments):
    """Sundararajan et al. 2017 from x to point, of the loss, by the trapezoid rule."""
    total = torch.zeros_like(x)
    for number in range(num_segments):
        for end in (number, number + 1):
            stop = x + end / num_segments * (point - x)
            total += input_gradient(model, stop, y, loss_of) / (2 * num_segments)
    return (point - x) * total


def ig_sum(model, batch, points, num_segments, norm_weight):
    """Chen et al. 2019: rise of the loss to given points, and the l1 norm of its attribution."""
    values = []
    for n in range(len(batch.x)):
        x, y, point = batch.x[n], int(batch.y[n]), points[n]
        parts = integrated_gradients_of_loss(model, x, point, y, num_segments)
        with torch.no_grad():
            before, after = (loss_of(model(end[None])[0].tolist(), y) for end in (x, point))
        norm = sum(abs(part) for part in parts.flatten().tolist())
        values.append((after - before, after - before + norm_weight * norm, norm))
    return values


def divergence(expected, given):
    """Kullback-Leibler divergence of two rows of logits, of the second from the first."""
    logs = []
    for row in (expected, given):
        total = sum(math.exp(value) for value in row)
        logs.append([value - math.log(total) for value in row])
    return sum(math.exp(p) * (p - q) for p, q in zip(*logs, strict=True))


def moved_content(x, mask, donor_x, donor_mask):
    """One image whose masked box gets a donor's masked box, pixel by pixel."""
    channels, height, width = x.shape
    own = [(r, c) for r in range(height) for c in range(width) if mask[0, r, c] > 0]
    theirs = [(r, c) for r in range(height) for c in range(width) if donor_mask[0, r, c] > 0]
    result = x.clone()
    if not own or not theirs:
        return result
    (top, left), (bottom, right) = map(min, zip(*own)), map(max, zip(*own))  # noqa: B905
    (d_top, d_left), (d_bottom, d_right) = map(min, zip(*theirs)), map(max, zip(*theirs))  # noqa: B905
    for r, c in own:
        d_r = d_top + int((r - top + 0.5) * (d_bottom - d_top + 1) / (bottom - top + 1))
        d_c = d_left + int((c - left + 0.5) * (d_right - d_left + 1) / (right - left + 1))
        for k in range(channels):
            share = float(mask[0, r, c])
            result[k, r, c] = (1 - share) * x[k, r, c] + share * donor_x[k, d_r, d_c]
    return result


def token_gradient(model, tokens, attention, y):
    """The gradient of one text's loss at the output of its embedding, (T, E)."""
    table = next(m for m in model.modules() if isinstance(m, torch.nn.Embedding))
    kept = []
    hook = table.register_forward_hook(lambda module, inputs, output: kept.append(output))
    try:
        logits = model(tokens[None], attention_mask=attention[None])
    finally:
        hook.remove()
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor([y]))
    return torch.autograd.grad(loss, kept[0])[0][0]


def token_norms(model, batch, copies, combine):
    """R4 paper, appendix C: the squared norm of the masked, combined gradients of some texts."""
    penalties = []
    for n in range(len(batch.x)):
        attention, y = batch.inputs["attention_mask"][n], int(batch.y[n])
        gradients = [token_gradient(model, copy[n], attention, y) for copy in copies]
        total = combine([batch.mask[n][:, None] * one for one in gradients])
        penalties.append(sum(float(value) ** 2 for value in total.flatten()))
    return penalties


def token_attack(model, batch, substitutes):
    """R4 paper, appendix C: the substitutes that a greedy search writes into each text."""
    texts = []
    for n in range(len(batch.x)):
        attention, y, tokens = (
            batch.inputs["attention_mask"][n],
            int(batch.y[n]),
            batch.x[n].clone(),
        )
        for place in range(len(tokens)):
            if not batch.mask[n, place]:
                continue
            sizes = []
            for word in substitutes:
                tried = tokens.clone()
                tried[place] = word
                gradient = token_gradient(model, tried, attention, y)[place]
                sizes.append(math.sqrt(sum(float(value) ** 2 for value in gradient)))
            tokens[place] = substitutes[sizes.index(max(sizes))]
        texts.append(tokens)
    return torch.stack(texts)


def ramp(num_passes, start, end, shape):
    """A factor that is 0 up to the share ``start`` of training and 1 from the share ``end`` on."""
    factors = []
    for step in range(num_passes):
        position = step / num_passes
        if position < start:
            factors.append(0.0)
            continue
        if position >= end:
            factors.append(1.0)
            continue
        way = (position - start) / (end - start)
        if shape == "linear":
            factors.append(way)
        else:  # equal steps of the logarithm, from 0.00001 on
            factors.append(10 ** (-5 + 5 * way))
    return factors
