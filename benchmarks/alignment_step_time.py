"""Measure the time and memory of a step of the alignment terms, as ratios in one run.

The script compares every term with a step of the same formula written by hand. Each round runs
every step once, in turn, so that a busy machine slows all of them. Time is the median over rounds
of the ratio within a round. Memory is the largest number of bytes in tensors during a step. It
includes parameters, gradients, Adam's state and the batch. It comes from the allocation events of
torch.profiler, which count neither the interpreter nor caches. Every step is profiled once.

    python benchmarks/alignment_step_time.py [--rounds 10] [--models lenet_relu ...] [--terms ...]
        [--out benchmarks/results/alignment_step_time.json]

A step of IGA takes tens, one of IG-NORM and IG-SUM-NORM hundreds of cross-entropy steps: name
them in --terms with a smaller --batch-size.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn, optim
from torch.nn import functional

import rightreasons as rr
from timing import (
    Step,
    library_step,
    machine,
    peak_tensor_bytes,
    publish,
    ratio,
    seconds_of,
    step_parser,
)

Penalty = Callable[[nn.Module, Tensor, Tensor, Tensor, Tensor], Tensor]
BASE = "cross_entropy by hand"
EPSILON, BALL = 4 / 255, 8 / 255
MODELS: dict[str, Callable[[], nn.Module]] = {
    "lenet_relu": lambda: rr.models.lenet(),
    "lenet_softplus": lambda: rr.models.lenet(activation="softplus"),
    "resnet18_relu": lambda: rr.models.resnet18(classes=10, size=32),
    "resnet18_softplus": lambda: rr.models.resnet18(classes=10, size=32, activation="softplus"),
}
QUICK = ["l2_alignment", "alignment", "hessian", "cure", "atex"]


def own(logits: Tensor, y: Tensor) -> Tensor:
    return logits.gather(1, y[:, None]).sum()


def slope(value: Tensor, x: Tensor, *, graph: bool) -> Tensor:
    return torch.autograd.grad(value, x, create_graph=graph, retain_graph=True)[0]


def gradient_near(model: nn.Module, x: Tensor, y: Tensor, step: Tensor) -> Tensor:
    moved = (x.detach() + step).requires_grad_()
    return slope(own(model(moved), y), moved, graph=True)


def uniform(x: Tensor, epsilon: float) -> Tensor:
    return (2 * torch.rand_like(x) - 1) * epsilon


def l2_by_hand(model: nn.Module, x: Tensor, y: Tensor, logits: Tensor, losses: Tensor) -> Tensor:
    source = slope(own(logits, y), x, graph=False)
    near = gradient_near(model, x, y, uniform(x, EPSILON))
    return 6e-4 * (near - source).square().flatten(1).sum(dim=1).mean()


def both_by_hand(model: nn.Module, x: Tensor, y: Tensor, logits: Tensor, losses: Tensor) -> Tensor:
    source = slope(own(logits, y), x, graph=False)
    near = gradient_near(model, x, y, uniform(x, EPSILON))
    l2 = (near - source).square().flatten(1).sum(dim=1).mean()
    cosine = functional.cosine_similarity(near.flatten(1), source.flatten(1))
    return 6e-4 * l2 + (1 - cosine).mean() / 2


def hessian_by_hand(
    model: nn.Module, x: Tensor, y: Tensor, logits: Tensor, losses: Tensor
) -> Tensor:
    gradient = slope(own(logits, y), x, graph=True)
    product = slope((gradient * torch.randn_like(x)).sum(), x, graph=True)
    return 4e-6 * product.square().flatten(1).sum(dim=1).mean()


def cure_by_hand(model: nn.Module, x: Tensor, y: Tensor, logits: Tensor, losses: Tensor) -> Tensor:
    source = slope(losses.sum(), x, graph=True)
    signs = source.detach().sign()
    moved = x.detach() + 0.3 * signs / signs.flatten(1).norm(dim=1)[:, None, None, None]
    moved.requires_grad_()
    near = slope(functional.cross_entropy(model(moved), y, reduction="sum"), moved, graph=True)
    return 0.16 * (near - source).square().flatten(1).sum(dim=1).mean()


def triplet(model: nn.Module, point: Tensor, image: Tensor, y: Tensor) -> Tensor:
    logits = model(point)
    rivals = logits.scatter(1, y[:, None], -torch.inf).amax(dim=1)
    likeness = [
        functional.cosine_similarity(slope(value, point, graph=True).flatten(1), image.flatten(1))
        for value in (own(logits, y), rivals.sum())
    ]
    return functional.softplus(likeness[1] - likeness[0])


def iga_by_hand(model: nn.Module, x: Tensor, y: Tensor, logits: Tensor, losses: Tensor) -> Tensor:
    image = x.detach()
    point = image + uniform(image, BALL)
    for _ in range(3):
        point = point.requires_grad_()
        climb = slope(triplet(model, point, image, y).sum(), point, graph=False).sign()
        point = (point.detach() + 5 / 255 * climb).clamp(image - BALL, image + BALL)
    return 0.5 * triplet(model, point.requires_grad_(), image, y).mean()


def atex_by_hand(model: nn.Module, x: Tensor, y: Tensor, logits: Tensor, losses: Tensor) -> Tensor:
    gradient = slope(own(logits, y), x, graph=False)
    each = (-1, 1, 1, 1)
    along = torch.rand(len(x)).sub(0.5).view(each) * BALL
    start = x.detach() + along * gradient / gradient.flatten(1).abs().amax(dim=1).view(each)
    unit = gradient / gradient.flatten(1).norm(dim=1).view(each)
    noise = uniform(x.detach(), BALL)
    moved = start + noise - (noise * unit).flatten(1).sum(dim=1).view(each) * unit
    with torch.no_grad():
        expected = functional.log_softmax(model(start), dim=1)
    given = functional.log_softmax(model(moved), dim=1)
    return functional.kl_div(given, expected, reduction="batchmean", log_target=True)


def way(model: nn.Module, image: Tensor, point: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    places = torch.cat([image + share / 5 * (point - image) for share in range(6)])
    losses = functional.cross_entropy(model(places), y.repeat(6), reduction="none")
    slopes = slope(losses.sum(), places, graph=True).view(6, *image.shape)
    losses = losses.view(6, -1)
    parts = (point - image) * (slopes[1:] + slopes[:-1]).sum(dim=0) / 10
    return parts.abs().flatten(1).sum(dim=1), losses[-1] - losses[0]


def climbed_way(model: nn.Module, x: Tensor, y: Tensor, *, with_rise: bool) -> Tensor:
    image = x.detach()
    point = (image + uniform(image, BALL)).requires_grad_()
    for _ in range(7):
        norm, rise = way(model, image, point, y)
        climb = slope((norm + with_rise * rise).sum(), point, graph=False).sign()
        point = (point.detach() + 2 / 255 * climb).clamp(image - BALL, image + BALL)
        point = point.requires_grad_()
    norm, rise = way(model, image, point, y)
    return (norm + rise).mean() if with_rise else 0.1 * norm.mean()


def ig_norm_by_hand(
    model: nn.Module, x: Tensor, y: Tensor, logits: Tensor, losses: Tensor
) -> Tensor:
    return climbed_way(model, x, y, with_rise=False)


def ig_sum_by_hand(
    model: nn.Module, x: Tensor, y: Tensor, logits: Tensor, losses: Tensor
) -> Tensor:
    return climbed_way(model, x, y, with_rise=True)


BY_HAND: dict[str, Penalty] = {
    "l2_alignment": l2_by_hand,
    "alignment": both_by_hand,
    "hessian": hessian_by_hand,
    "cure": cure_by_hand,
    "iga": iga_by_hand,
    "atex": atex_by_hand,
    "ig_norm": ig_norm_by_hand,
    "ig_sum": ig_sum_by_hand,
}
NEEDS_CURVATURE = {"hessian"}


def hand_step(model: nn.Module, batch: rr.Batch, penalty: Penalty | None) -> Step:
    """Write a step by hand. In a net with BatchNorm the penalty uses frozen statistics."""
    optimizer = optim.Adam(model.parameters(), lr=1e-4)
    apart = any(isinstance(module, nn.BatchNorm2d) for module in model.modules())

    def step() -> None:
        x = batch.x.detach().requires_grad_(penalty is not None)
        logits = model(x.detach() if apart else x)
        losses = functional.cross_entropy(logits, batch.y, reduction="none")
        total = losses.mean()
        if penalty is not None:
            model.train(not apart)
            if apart:
                logits = model(x)
                losses = functional.cross_entropy(logits, batch.y, reduction="none")
            total = total + penalty(model, x, batch.y, logits, losses)
            model.train()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()

    return step


def held_bytes(model: nn.Module, batch: rr.Batch) -> int:
    """Count the bytes before a step: parameters, gradients, Adam's two moments, and the batch."""
    floats = 4 * sum(weight.numel() for weight in model.parameters()) + batch.x.numel()
    return floats * batch.x.element_size()


def measure(
    name: str, terms: list[str], rounds: int, batch_size: int
) -> dict[str, dict[str, float]]:
    make = MODELS[name]
    batch = rr.Batch(x=torch.rand(batch_size, 3, 32, 32), y=torch.randint(10, (batch_size,)))
    steps = {BASE: hand_step(make(), batch, None)}
    bends = not name.endswith("relu")
    measured = [term for term in terms if bends or term not in NEEDS_CURVATURE]
    for term in measured:
        steps[f"{term} by hand"] = hand_step(make(), batch, BY_HAND[term])
        objective = rr.recipes.RECIPES.create(term).with_settings(frozen_statistics=True)
        steps[term] = library_step(make(), batch, objective)
    seconds = seconds_of(steps, rounds)
    held = held_bytes(make(), batch)
    memory = {step: held + peak_tensor_bytes(steps[step]) for step in steps}
    result = {}
    for step in steps:
        row = {"time": ratio(seconds, step, BASE), "memory": share(memory, step, BASE)}
        if step in measured:
            row["time beside by hand"] = ratio(seconds, step, f"{step} by hand")
            row["memory beside by hand"] = share(memory, step, f"{step} by hand")
        result[step] = row
    return result


def share(memory: dict[str, int], name: str, base: str) -> float:
    return round(memory[name] / memory[base], 3)


def main() -> None:
    parser = step_parser(__doc__, rounds=10)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--terms", nargs="+", choices=BY_HAND, default=QUICK)
    parser.add_argument("--batch-size", type=int, default=128)
    options = parser.parse_args()
    torch.manual_seed(0)
    result = {
        f"{name}, batch {options.batch_size}": measure(
            name, options.terms, options.rounds, options.batch_size
        )
        for name in options.models
    }
    publish(result | {"machine": machine() | {"rounds": options.rounds}}, options.out)


if __name__ == "__main__":
    main()
