"""The loss of each recipe as a careful user of PyTorch writes it, without this library.

A function maps a model and a batch to the loss of a step, with the default settings of the recipe.
Copies of samples are stacked into one pass. Tests compare the values with those of the recipes,
except where both draw at random.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import rightreasons as rr
from alignment_step_time import BY_HAND as ALIGNMENT
from alignment_step_time import Penalty
from reff_step_time import FOUR, reff_by_hand

Loss = Callable[[nn.Module, rr.Batch], Tensor]
each_loss = partial(functional.cross_entropy, reduction="none")


def slope(value: Tensor, x: Tensor, *, graph: bool = True) -> Tensor:
    """The gradient of the sum of some values at ``x``."""
    return torch.autograd.grad(value.sum(), x, create_graph=graph)[0]


def squares(values: Tensor) -> Tensor:
    """The sum of squares of each sample."""
    return values.square().flatten(1).sum(dim=1)


def plain(model: nn.Module, batch: rr.Batch) -> Tensor:
    return functional.cross_entropy(model(batch.x, **(batch.inputs or {})), batch.y)


def with_gradient(
    model: nn.Module,
    batch: rr.Batch,
    *,
    value: Callable[[Tensor, Tensor], Tensor],
    size: Callable[[Tensor, rr.Batch], Tensor],
    weight: float,
    task: Callable[[Tensor, rr.Batch], Tensor] = lambda logits, batch: each_loss(logits, batch.y),
) -> Tensor:
    """A task and the size of an input gradient, on one pass."""
    x = batch.x.detach().requires_grad_()
    logits = model(x)
    gradient = slope(value(logits, batch.y), x)
    return (task(logits, batch) + weight * size(gradient, batch)).mean()


def own_logit(logits: Tensor, y: Tensor) -> Tensor:
    return logits.gather(1, y[:, None])


def norm(gradient: Tensor, batch: rr.Batch) -> Tensor:
    del batch
    return gradient.flatten(1).norm(dim=1)


def inside(gradient: Tensor, batch: rr.Batch) -> Tensor:
    return squares(batch.mask * gradient)


def log_sum(logits: Tensor, y: Tensor) -> Tensor:
    del y
    return logits.logsumexp(dim=1)


def group_dro_task(logits: Tensor, batch: rr.Batch) -> Tensor:
    losses, group = each_loss(logits, batch.y), batch.group
    counts = torch.bincount(group, minlength=2)
    means = torch.zeros(len(counts)).index_add(0, group, losses.detach()) / counts.clamp(min=1)
    weights = (0.01 * means).softmax(dim=0)  # the first step: later ones add up the exponents
    return losses * (weights / counts.clamp(min=1) * len(losses))[group]


def smooth_r3(model: nn.Module, batch: rr.Batch, *, num_samples: int = 3) -> Tensor:
    x = batch.x.repeat(num_samples, 1, 1, 1)
    x = (x + 0.1 * (2 * torch.rand_like(x) - 1)).requires_grad_()
    gradients = slope(each_loss(model(x), batch.y.repeat(num_samples)), x)
    mean = gradients.view(num_samples, *batch.x.shape).mean(dim=0)
    return plain(model, batch) + 100 * inside(mean, batch).mean()


def rand_r4(model: nn.Module, batch: rr.Batch, *, num_samples: int = 5) -> Tensor:
    point = worst_draw(model, batch, num_samples)
    return plain(model, batch) + 100 * size_at(model, batch, point).mean()


def worst_draw(model: nn.Module, batch: rr.Batch, num_samples: int) -> Tensor:
    """Among points drawn from the masked box, the one with the largest masked gradient."""
    shape = (num_samples, *batch.x.shape)
    lower, upper = masked_box(batch)
    points = lower + (upper - lower) * torch.rand(shape)
    if num_samples == 1:
        return points[0]
    stacked = points.flatten(0, 1).requires_grad_()
    found = slope(each_loss(model(stacked), batch.y.repeat(num_samples)), stacked, graph=False)
    sizes = squares(batch.mask.repeat(num_samples, 1, 1, 1) * found).view(num_samples, -1)
    return points[sizes.argmax(dim=0), torch.arange(len(batch))]


def masked_box(batch: rr.Batch, epsilon: float = 0.5) -> tuple[Tensor, Tensor]:
    reach = epsilon * batch.mask
    return (batch.x - reach).clamp(min=0), (batch.x + reach).clamp(max=1)


def size_at(model: nn.Module, batch: rr.Batch, point: Tensor) -> Tensor:
    point = point.detach().requires_grad_()
    return inside(slope(each_loss(model(point), batch.y), point), batch)


def adv_r4(model: nn.Module, batch: rr.Batch, *, num_steps: int = 3) -> Tensor:
    lower, upper = masked_box(batch)
    point = worst_draw(model, batch, 1)
    best, largest = point, torch.full((len(batch),), -1.0)
    for _ in range(num_steps):
        point = point.detach().requires_grad_()
        size = inside(slope(each_loss(model(point), batch.y), point), batch)
        climbed = slope(size, point, graph=False)
        is_larger = size > largest
        best = torch.where(is_larger[:, None, None, None], point, best)
        largest = torch.where(is_larger, size, largest).detach()
        point = (point + 0.25 * (upper - lower) * climbed.sign()).clamp(lower, upper)
    point = point.detach().requires_grad_()  # the last point may be the best
    last = inside(slope(each_loss(model(point), batch.y), point, graph=False), batch)
    best = torch.where((last > largest)[:, None, None, None], point, best)
    return plain(model, batch) + 100 * size_at(model, batch, best).mean()


def layers_of(model: nn.Module) -> list[nn.Module]:
    return [one for one in model.modules() if isinstance(one, nn.Linear | nn.ReLU)]


def box_through(model: nn.Module, batch: rr.Batch, epsilon: float) -> list[tuple[Tensor, Tensor]]:
    """Centre and radius before each layer and at the end, for linear layers and ReLU."""
    reach = epsilon * batch.mask
    low, high = (batch.x - reach).clamp(min=0).flatten(1), (batch.x + reach).clamp(max=1).flatten(1)
    center, radius = (low + high) / 2, (high - low) / 2
    boxes = [(center, radius)]
    for layer in layers_of(model):
        if isinstance(layer, nn.Linear):
            center, radius = layer(center), functional.linear(radius, layer.weight.abs())
        else:
            low, high = (center - radius).relu(), (center + radius).relu()
            center, radius = (low + high) / 2, (high - low) / 2
        boxes.append((center, radius))
    return boxes


def ibp_ex(model: nn.Module, batch: rr.Batch, *, with_r3: bool = False) -> Tensor:
    center, radius = box_through(model, batch, 1.0)[-1]
    is_label = functional.one_hot(batch.y, center.shape[1]).bool()
    worst = functional.cross_entropy(center + torch.where(is_label, -radius, radius), batch.y)
    task = BY_HAND["r3"] if with_r3 else plain
    return task(model, batch) + 0.3 * worst


def cert_r4(model: nn.Module, batch: rr.Batch) -> Tensor:
    boxes = box_through(model, batch, 0.1)
    center, radius = boxes[-1]
    is_label = functional.one_hot(batch.y, center.shape[1]).bool()
    ends = []
    for side in (-radius, radius):  # the smallest and the largest probability of each class
        own, other = center + side, center - side
        others = other[:, None, :].masked_fill(torch.eye(other.shape[1]).bool(), -torch.inf)
        ends.append(torch.sigmoid(own - others.logsumexp(dim=2)) - is_label.float())
    center, radius = (ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2
    for layer, (before, spread) in zip(layers_of(model)[::-1], boxes[-2::-1], strict=True):
        if isinstance(layer, nn.Linear):
            center = functional.linear(center, layer.weight.T)
            radius = functional.linear(radius, layer.weight.abs().T)
            continue
        least, most = (before - spread > 0).float(), (before + spread > 0).float()
        low = torch.minimum((center - radius) * least, (center - radius) * most)
        high = torch.maximum((center + radius) * least, (center + radius) * most)
        center, radius = (low + high) / 2, (high - low) / 2
    bound = batch.mask.expand_as(batch.x).flatten(1) * (center.abs() + radius)
    return plain(model, batch) + 10 * squares(bound).mean()


def pgd(
    model: nn.Module, batch: rr.Batch, box: tuple[Tensor, Tensor], *, stride: float, steps: int
) -> Tensor:
    """The point where a signed ascent of the loss ends, from a random start."""
    lower, upper = box
    point = lower + (upper - lower) * torch.rand_like(batch.x)
    for _ in range(steps):
        point = point.detach().requires_grad_()
        climbed = slope(each_loss(model(point), batch.y), point, graph=False).sign()
        point = (point.detach() + stride * climbed).clamp(lower, upper)
    return point.detach()


def pgd_ex(model: nn.Module, batch: rr.Batch) -> Tensor:
    """The worst point on the way counts, the sample itself too."""
    lower, upper = masked_box(batch)
    losses = each_loss(model(batch.x), batch.y)
    best, largest = batch.x, losses.detach()
    point = lower + (upper - lower) * torch.rand_like(batch.x)
    for step in range(6):
        point = point.detach().requires_grad_(step < 5)
        with torch.set_grad_enabled(step < 5):
            values = each_loss(model(point), batch.y)
        is_larger = values > largest
        best = torch.where(is_larger[:, None, None, None], point.detach(), best)
        largest = torch.maximum(values.detach(), largest)
        if step < 5:
            share = 0.25 * (1 - 0.18 * step) if step else 1.0
            climbed = slope(values, point, graph=False).sign()
            point = (point.detach() + share * (upper - lower) * climbed).clamp(lower, upper)
    return losses.mean() + functional.cross_entropy(model(best), batch.y)


def at_pgd(model: nn.Module, batch: rr.Batch) -> Tensor:
    box = ((batch.x - 0.1).clamp(min=0), (batch.x + 0.1).clamp(max=1))
    point = pgd(model, batch, box, stride=0.05, steps=5)
    return functional.cross_entropy(model(point), batch.y)


def at_fgsm(model: nn.Module, batch: rr.Batch) -> Tensor:
    x = batch.x.detach().requires_grad_()
    logits = model(x)
    losses = each_loss(logits, batch.y)
    (climbed,) = torch.autograd.grad(losses.sum(), x, retain_graph=True)
    attacked = functional.cross_entropy(model(batch.x + 0.1 * climbed.sign()), batch.y)
    return (losses.mean() + attacked) / 2


def counterexamples(model: nn.Module, batch: rr.Batch) -> Tensor:
    """Masked features come from another sample of the batch, at the same place."""
    other = batch.x[torch.randperm(len(batch))]
    return functional.cross_entropy(model(torch.where(batch.mask > 0, other, batch.x)), batch.y)


def spectral_decoupling(model: nn.Module, batch: rr.Batch) -> Tensor:
    logits = model(batch.x)
    return functional.cross_entropy(logits, batch.y) + 0.05 * squares(logits).mean()


def cvar_dro(model: nn.Module, batch: rr.Batch) -> Tensor:
    count = 0.2 * len(batch)
    losses = each_loss(model(batch.x), batch.y).sort(descending=True).values
    return (losses * (count - torch.arange(len(batch))).clamp(0, 1)).sum() / count


def group_dro(model: nn.Module, batch: rr.Batch) -> Tensor:
    return group_dro_task(model(batch.x), batch).mean()


def score_matching(model: nn.Module, batch: rr.Batch) -> Tensor:
    x = batch.x.detach().requires_grad_()
    logits = model(x)
    logit = own_logit(logits, batch.y)[:, 0]
    noise = 0.01 * torch.randn_like(batch.x)
    near = own_logit(model(torch.cat([batch.x + noise, batch.x - noise])), batch.y.repeat(2))
    trace = 2 * (near.view(2, -1) - logit).mean(dim=0) / 0.01**2
    penalty = trace + squares(slope(logit, x)) / 2 + 1e-4 * trace.square()
    return functional.cross_entropy(logits, batch.y) + 1e-5 * penalty.mean()


def one_sided(model: nn.Module, batch: rr.Batch) -> Tensor:
    logits = model(batch.x)
    size = logits.shape[1]
    is_label = functional.one_hot(batch.y, size).bool()
    share = is_label.float().mean(dim=0)
    false = (-torch.log1p(-logits.softmax(dim=1)) / (1 - share)).masked_fill(is_label, 0)
    return (each_loss(logits, batch.y) / share[batch.y] + false.sum(dim=1)).mean() / size


def aligned(model: nn.Module, batch: rr.Batch, *, penalty: Penalty) -> Tensor:
    x = batch.x.detach().requires_grad_()
    logits = model(x)
    losses = each_loss(logits, batch.y)
    return losses.mean() + penalty(model, x, batch.y, logits, losses)


def reff(model: nn.Module, batch: rr.Batch) -> Tensor:
    logits, penalty = reff_by_hand(model, batch.x, batch.y, batch.mask, FOUR)
    return functional.cross_entropy(logits, batch.y) + penalty.mean()


def of_embeddings(model: Any, batch: rr.Batch) -> Tensor:
    """R3 for texts: a hook keeps the output of the embedding."""
    kept: list[Tensor] = []
    table = next(one for one in model.modules() if isinstance(one, nn.Embedding))
    hook = table.register_forward_hook(lambda _m, _i, out: kept.append(out))
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        losses = each_loss(model(batch.x, **batch.inputs), batch.y)
    hook.remove()
    gradient = slope(losses, kept[0])
    return losses.mean() + 10 * squares(batch.mask[..., None] * gradient).mean()


def gamblers(model: nn.Module, batch: rr.Batch) -> Tensor:
    logits = model.model(batch.x)  # type: ignore[operator]
    log_all = functional.log_softmax(logits, dim=1)
    own = own_logit(log_all, batch.y)[:, 0]
    return -torch.logaddexp(own, log_all[:, -1] - math.log(2.2)).mean()


BY_HAND: dict[str, Loss] = {
    "erm": plain,
    "r3": partial(with_gradient, value=each_loss, size=inside, weight=30.0),
    "input_gradient": partial(with_gradient, value=own_logit, size=norm, weight=0.1),
    "density": partial(with_gradient, value=log_sum, size=norm, weight=0.1),
    "group_dro_density": partial(
        with_gradient, value=log_sum, size=norm, weight=0.1, task=group_dro_task
    ),
    "smooth_r3": smooth_r3,
    "rand_r4": rand_r4,
    "adv_r4": adv_r4,
    "ibp_ex": ibp_ex,
    "ibp_ex_r3": partial(ibp_ex, with_r3=True),
    "cert_r4": cert_r4,
    "pgd_ex": pgd_ex,
    "at_fgsm": at_fgsm,
    "at_pgd": at_pgd,
    "counterexamples": counterexamples,
    "spectral_decoupling": spectral_decoupling,
    "cvar_dro": cvar_dro,
    "group_dro": group_dro,
    "score_matching": score_matching,
    "one_sided": one_sided,
    "deep_gamblers": gamblers,
    "reff": reff,
    **{name: partial(aligned, penalty=penalty) for name, penalty in ALIGNMENT.items()},
}
