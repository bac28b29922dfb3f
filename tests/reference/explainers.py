"""Slow twins of the explainers, loops only, written from the papers; and the nets they explain."""

import torch
from torch import nn

import rightreasons as rr

STEP = 1e-6


class Skip(nn.Module):
    """A residual sum."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        return self.body(x) + x


def mlp(activation):
    return nn.Sequential(
        *(nn.Flatten(), nn.Linear(32, 14), activation(), nn.Linear(14, 12), activation()),
        nn.Linear(12, 3),
    ).double()


def cnn(activation):
    """Two convolutions with BatchNorm, both kinds of pooling, for inputs (N, 2, 4, 4)."""
    net = nn.Sequential(
        *(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), activation(), nn.MaxPool2d(2)),
        *(nn.Conv2d(4, 5, 3, padding=1, bias=False), nn.BatchNorm2d(5), activation()),
        *(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(5, 3)),
    )
    return with_statistics(net.double())


def residual(activation):
    """A convolution, a residual sum and global pooling, for inputs (N, 2, 4, 4)."""
    body = nn.Sequential(
        *(nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), activation()),
        *(nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)),
    )
    net = nn.Sequential(
        *(nn.Conv2d(2, 4, 3, padding=1), activation(), Skip(body), activation()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)),
    )
    return with_statistics(net.double())


def resnet(activation):
    """The library's ResNet-18, slim."""
    net = rr.models.resnet18(classes=3, channels=2, size=8, width=1 / 16, activation=activation)
    return with_statistics(net.double())


def with_statistics(net):
    """BatchNorm that does something."""
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.3)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.3)
    return net


ACTIVATIONS = {"relu": nn.ReLU, "softplus": lambda: nn.Softplus(beta=3.0)}
NETS = {"mlp": mlp, "cnn": cnn, "residual": residual, "resnet": resnet}


def make_net(name, activation):
    return NETS[name](ACTIVATIONS[activation])


def input_gradient(model, x, y):
    """The gradient of a logit for one sample, by central differences on every feature."""
    return jacobian(lambda moved: model(moved[None])[0, y], x)[0].reshape(x.shape)


def input_less_baseline(model, x, y, baseline):
    """Input times gradient, channel by channel, with another number taken from each channel."""
    gradient = input_gradient(model, x, y)
    result = torch.zeros_like(x)
    for channel, value in enumerate(baseline):
        result[channel] = (x[channel] - value) * gradient[channel]
    return result


def smooth_grad(model, x, y, noises):
    """Smilkov et al., section 3: the mean of gradients at noisy copies."""
    total = torch.zeros_like(x)
    for noise in noises:
        total += input_gradient(model, x + noise, y)
    return total / len(noises)


def integrated_gradients(model, x, y, baseline, num_steps):
    """Sundararajan et al., equation 1, by the trapezoidal rule."""
    total = torch.zeros_like(x)
    for step in range(num_steps):
        gradient = input_gradient(model, baseline + step / (num_steps - 1) * (x - baseline), y)
        total += gradient * (0.5 if step in (0, num_steps - 1) else 1.0) / (num_steps - 1)
    return (x - baseline) * total


def outputs_of(layers, x):
    """What goes into each layer for one sample, and the last output."""
    values = [x[None]]
    with torch.no_grad():
        for layer in layers:
            values.append(layer(values[-1]))
    return values


def jacobian(layer, x):
    """(outputs, inputs), by central differences."""
    columns = []
    for index in range(x.numel()):
        ends = []
        for sign in (1, -1):
            moved = x.clone()
            moved.view(-1)[index] += sign * STEP
            with torch.no_grad():
                ends.append(layer(moved).flatten())
        columns.append((ends[0] - ends[1]) / (2 * STEP))
    return torch.stack(columns, dim=1)


def guided_backprop(layers, x, y):
    """Alignment paper, section 5: the true gradient, but for activations."""
    values = outputs_of(layers, x)
    gradient = [1.0 if k == y else 0.0 for k in range(values[-1].numel())]
    for layer, value in reversed(list(zip(layers, values, strict=False))):
        if isinstance(layer, nn.ReLU | nn.Softplus):
            new = []
            for z, g in zip(value.flatten(), gradient, strict=True):
                with torch.no_grad():
                    slope = (layer(z + STEP) - layer(z - STEP)) / (2 * STEP)
                new.append(slope.item() * g if g > 0 else 0.0)
            gradient = new
        else:
            matrix = jacobian(layer, value)
            gradient = [
                sum(matrix[j, i].item() * gradient[j] for j in range(matrix.shape[0]))
                for i in range(matrix.shape[1])
            ]
    return torch.tensor(gradient, dtype=x.dtype).reshape(x.shape)


def affine_groups(layers):
    """Layers with BatchNorm put together with the layer it follows."""
    groups = []
    for layer in layers:
        if isinstance(layer, nn.BatchNorm2d):
            groups[-1] = nn.Sequential(groups[-1], layer)
        else:
            groups.append(layer)
    return groups


def lrp(layers, x, y, *, rule, box=None, epsilon=None, gamma=None):
    """Alignment paper, section 5, unit by unit; `box` is for the first affine layer."""
    groups = affine_groups(layers)
    values = outputs_of(groups, x)
    relevance = [1.0 if k == y else 0.0 for k in range(values[-1].numel())]
    settings = {"rule": rule, "epsilon": epsilon, "gamma": gamma}
    return _lrp_through(groups, values, relevance, box, **settings).reshape(x.shape)


def _lrp_through(groups, values, relevance, box, *, rule, epsilon, gamma):
    def signed(z):
        return z + epsilon * (1 if z >= 0 else -1)

    first = next(n for n, group in enumerate(groups) if not isinstance(group, nn.Flatten))
    for number in reversed(range(len(groups))):
        group, value = groups[number], values[number]
        x = value.flatten().tolist()
        if isinstance(group, nn.ReLU | nn.Softplus | nn.Flatten):
            continue
        if isinstance(group, Skip):
            inner = affine_groups(group.body)
            inside = outputs_of(inner, value[0])
            residual = inside[-1].flatten().tolist()
            down, across = [], []
            for a, b, share in zip(residual, x, relevance, strict=True):
                if rule == "z_plus":
                    a, b = abs(a), abs(b)
                    total = a + b
                elif rule == "gamma":
                    a, b = a + gamma * max(a, 0), b + gamma * max(b, 0)
                    total = signed(a + b)
                else:
                    total = signed(a + b)
                down.append(a / total * share)
                across.append(b / total * share)
            below = _lrp_through(
                inner, inside, down, None, rule=rule, epsilon=epsilon, gamma=gamma
            ).tolist()
            relevance = [a + b for a, b in zip(below, across, strict=True)]
            continue
        if isinstance(group, nn.MaxPool2d):
            matrix = jacobian(group, value)
            relevance = [
                sum(matrix[j, i].item() * relevance[j] for j in range(len(relevance)))
                for i in range(len(x))
            ]
            continue
        matrix = jacobian(group, value)
        with torch.no_grad():
            bias = group(torch.zeros_like(value)).flatten().tolist()
        new = [0.0] * len(x)
        for j, share in enumerate(relevance):
            weights = matrix[j].tolist()
            if box is not None and number == first:
                low, high = box
                parts = [
                    v * w - low * max(w, 0) - high * min(w, 0)
                    for v, w in zip(x, weights, strict=True)
                ]
                total = sum(parts)
            elif rule == "z_plus":
                parts = [max(v * w, 0.0) for v, w in zip(x, weights, strict=True)]
                total = sum(parts)
            elif rule == "gamma":
                parts = [v * (w + gamma * max(w, 0)) for v, w in zip(x, weights, strict=True)]
                total = signed(sum(parts) + bias[j] + gamma * max(bias[j], 0))
            else:
                parts = [v * w for v, w in zip(x, weights, strict=True)]
                total = signed(sum(parts) + bias[j])
            for i, part in enumerate(parts):
                new[i] += part / total * share if abs(total) > 1e-9 else 0.0
        relevance = new
    return torch.tensor(relevance, dtype=values[0].dtype)


def class_activation(model, layer, x, y, size, *, kind):
    """Selvaraju et al., equations 1 and 2; Fu et al., equation 8; resized bilinearly."""
    kept = []
    hook = layer.register_forward_hook(lambda module, inputs, output: kept.append(output))
    logits = model(x[None].clone().requires_grad_())
    hook.remove()
    (gradient,) = torch.autograd.grad(logits[0, y], kept[0])
    maps, slopes = kept[0][0].tolist(), gradient[0].tolist()
    height, width = len(maps[0]), len(maps[0][0])
    pixels = [(i, j) for i in range(height) for j in range(width)]
    heat = torch.zeros(height, width, dtype=x.dtype)
    for activation, slope in zip(maps, slopes, strict=True):
        if kind == "grad_cam":
            weight = sum(slope[i][j] for i, j in pixels) / len(pixels)
        else:
            total = sum(activation[i][j] for i, j in pixels)
            weighted = sum(slope[i][j] * activation[i][j] for i, j in pixels)
            weight = weighted / total if total else 0.0
        for i, j in pixels:
            heat[i, j] += weight * activation[i][j]
    for i, j in pixels:
        heat[i, j] = max(heat[i, j], 0)
    return resized(heat, size)


def resized(heat, size):
    """Bilinear interpolation between pixel centres, edges repeated."""
    result = torch.zeros(size, dtype=heat.dtype)
    for i in range(size[0]):
        for j in range(size[1]):
            value = 0.0
            for row, by_row in _neighbours(i, size[0], heat.shape[0]):
                for column, by_column in _neighbours(j, size[1], heat.shape[1]):
                    value += by_row * by_column * heat[row, column].item()
            result[i, j] = value
    return result


def _neighbours(place, new, old):
    centre = max((place + 0.5) * old / new - 0.5, 0.0)
    low = int(centre)
    high = min(low + 1, old - 1)
    return [(low, 1 - (centre - low)), (high, centre - low)]


def occlusion(model, x, y, *, window, stride, value):
    """Zeiler & Fergus, section 4.2: cover squares of an image, one at a time."""
    height, width = x.shape[1:]
    total, count = torch.zeros_like(x), torch.zeros_like(x)
    with torch.no_grad():
        plain = model(x[None])[0, y].item()
        for top in range(0, height - window + stride, stride):
            for left in range(0, width - window + stride, stride):
                covered = x.clone()
                covered[:, top : top + window, left : left + window] = value
                drop = plain - model(covered[None])[0, y].item()
                total[:, top : top + window, left : left + window] += drop
                count[:, top : top + window, left : left + window] += 1
    return total / count
