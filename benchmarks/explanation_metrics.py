"""Time RPS, Insertion and Adv-Insertion beside loops in one run.

There are two loops. Both take one image at a time:

- by definition: computes every value as the paper defines it, for one image and one ratio or one
  draw of the noise. It explains or attacks the image, then runs a forward pass.
- sharing: explains and attacks each image once for all its ratios and draws.

All sides get the same images, draws and settings, and the script compares their values. The loops
get fewer images (--few), because they take long. Their seconds are scaled to the library's number
of images.

    python benchmarks/explanation_metrics.py [--images 1000] [--few 20] [--steps 100]
        [--activation softplus] [--out benchmarks/results/explanation_metrics.json]
"""

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

import rightreasons as rr
from rightreasons.core.rng import sample_noise
from rightreasons.metrics import RPS, AdvInsertion, Insertion
from rightreasons.metrics.insertion import RATIOS
from timing import publish

EPSILONS = (4 / 255, 8 / 255, 16 / 255)
NUM_DRAWS = 10
ATTACK_EPSILON, STEP_SIZE, BORDER = 4 / 255, 0.1, 5

Values = dict[str, float]


def gradient_of(model: nn.Module, x: Tensor, y: Tensor, *, create_graph: bool = False) -> Tensor:
    if not x.requires_grad:
        x = x.detach().requires_grad_()
    logit = model(x)[0, y]
    return torch.autograd.grad(logit, x, create_graph=create_graph)[0]


def map_of(gradient: Tensor) -> Tensor:
    return gradient.abs().sum(dim=1, keepdim=True)


def gaussian_window() -> Tensor:
    offsets = torch.arange(7, dtype=torch.float64) - 3
    bell = torch.exp(-(offsets**2) / (2 * 1.5**2))
    bell = bell / bell.sum()
    return (bell[:, None] * bell)[None, None]


def ssim(one: Tensor, other: Tensor, window: Tensor) -> float:
    def smooth(picture: Tensor) -> Tensor:
        return functional.conv2d(picture, window, padding=3)

    mean, other_mean = smooth(one), smooth(other)
    variance, other_variance = smooth(one**2) - mean**2, smooth(other**2) - other_mean**2
    covariance = smooth(one * other) - mean * other_mean
    spread = one.max() - one.min()
    small, large = (0.01 * spread) ** 2, (0.03 * spread) ** 2
    above = (2 * mean * other_mean + small) * (2 * covariance + large)
    below = (mean**2 + other_mean**2 + small) * (variance + other_variance + large)
    return float((above / below).mean())


def rps_by_loop(model: nn.Module, batch: rr.Batch, *, shares: bool) -> Values:
    window = gaussian_window()
    totals: Values = {}
    for n in range(len(batch)):
        x, y = batch.x[n : n + 1], batch.y[n]
        own = scaled(map_of(gradient_of(model, x, y)))
        noise = sample_noise(torch.tensor([n]), x.shape[1:], num_draws=NUM_DRAWS, seed=0)
        for epsilon in EPSILONS:
            for u in noise:
                moved = (x + epsilon * (2 * u - 1)).clamp(0, 1)
                if not shares:
                    own = scaled(map_of(gradient_of(model, x, y)))
                other = scaled(map_of(gradient_of(model, moved, y)))
                one, two = own.flatten(), other.flatten()
                found = {
                    "cosine": float(functional.cosine_similarity(one, two, dim=0)),
                    "pearson": float(torch.corrcoef(torch.stack([one, two]))[0, 1]),
                    "ssim": ssim(own, other, window),
                }
                for name, value in found.items():
                    key = f"rps/input_gradient/{name}/{epsilon:.4g}"
                    totals[key] = totals.get(key, 0.0) + value / len(batch) / NUM_DRAWS
    return totals


def scaled(picture: Tensor) -> Tensor:
    return picture.double() / picture.max()


def inserted(model: nn.Module, x: Tensor, y: Tensor, order: Tensor, ratio: float) -> float:
    mask = torch.zeros(order.numel())
    mask[order[: round(ratio * order.numel())]] = 1
    with torch.no_grad():
        logits = model(x * mask.reshape(1, 1, *x.shape[2:]))
    return float(logits.softmax(dim=1)[0, y])


def mean_curve(
    model: nn.Module, batch: rr.Batch, order_of: Callable[[Tensor, Tensor], Tensor], shares: bool
) -> float:
    """Return insertion in any order, averaged over images and ratios."""
    total = 0.0
    for n in range(len(batch)):
        x, y = batch.x[n : n + 1], batch.y[n]
        order = order_of(x, y)
        for ratio in RATIOS:
            if not shares:
                order = order_of(x, y)
            total += inserted(model, x, y, order, ratio)
    return total / len(batch) / len(RATIOS)


def order_at(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    picture = map_of(gradient_of(model, x, y))
    return picture.flatten().argsort(descending=True, stable=True)


def insertion_by_loop(model: nn.Module, batch: rr.Batch, *, shares: bool) -> Values:
    return {"insertion": mean_curve(model, batch, lambda x, y: order_at(model, x, y), shares)}


def attack_by_loop(model: nn.Module, x: Tensor, y: Tensor, steps: int) -> Tensor:
    frame = torch.ones(x.shape[2:])
    frame[BORDER:-BORDER, BORDER:-BORDER] = 0
    frame = frame / frame.sum()
    with torch.no_grad():
        predicted = model(x).argmax(dim=1)
    point, best, smallest = x, x, torch.inf
    for step in range(steps + 1):
        point = point.detach().requires_grad_()
        picture = map_of(gradient_of(model, point, y, create_graph=True))
        distance = (picture[0, 0] / picture.sum() - frame).norm()
        (slope,) = torch.autograd.grad(distance, point)
        with torch.no_grad():
            stays = bool(model(point).argmax(dim=1) == predicted)
        if stays and distance.item() < smallest:
            best, smallest = point.detach(), distance.item()
        if not stays:
            loss = functional.cross_entropy(model(point), predicted)
            (slope,) = torch.autograd.grad(loss, point)
        if step < steps:
            moved = point.detach() - STEP_SIZE * ATTACK_EPSILON * slope.sign()
            move = (moved - x).clamp(-ATTACK_EPSILON, ATTACK_EPSILON)
            point = (x + move).clamp(0, 1)
    return best


def adv_insertion_by_loop(model: nn.Module, batch: rr.Batch, *, steps: int, shares: bool) -> Values:
    def order_of(x: Tensor, y: Tensor) -> Tensor:
        return order_at(model, attack_by_loop(model, x, y, steps), y)

    return {"adv_insertion": mean_curve(model, batch, order_of, shares)}


def library(model: nn.Module, batch: rr.Batch, name: str, steps: int) -> Values:
    settings = {"epsilon": ATTACK_EPSILON, "num_steps": steps, "step_size": STEP_SIZE}
    metric = {
        "rps": RPS(epsilons=EPSILONS, num_draws=NUM_DRAWS),
        "insertion": Insertion(),
        "adv_insertion": AdvInsertion(softplus_beta=None, **settings),
    }[name]
    return rr.evaluate(model, batch, [metric])


def cifar_like(images: int) -> rr.Batch:
    """Make smooth random pictures of CIFAR's size."""
    rough = torch.rand(images, 3, 8, 8)
    x = functional.interpolate(rough, size=(32, 32), mode="bicubic").clamp(0, 1)
    return rr.Batch(x=x, y=torch.randint(10, (images,)))


def timed(run: Callable[[], Values]) -> tuple[float, Values]:
    began = time.perf_counter()
    values = run()
    return time.perf_counter() - began, values


def measure(model: nn.Module, batch: rr.Batch, few: int, steps: int) -> dict[str, object]:
    loops: dict[str, Callable[..., Values]] = {
        "rps": rps_by_loop,
        "insertion": insertion_by_loop,
        "adv_insertion": lambda *args, **kw: adv_insertion_by_loop(*args, steps=steps, **kw),
    }
    seconds: dict[str, dict[str, float]] = {}
    differences: Values = {}
    for name, loop in loops.items():
        some, scale = batch[:few], len(batch) / few
        by_definition, exact = timed(lambda go=loop, b=some: go(model, b, shares=False))
        sharing, shared = timed(lambda go=loop, b=some: go(model, b, shares=True))
        fast, _ = timed(lambda n=name: library(model, batch, n, steps))
        found = library(model, some, name, steps)
        seconds[name] = {
            "by definition": by_definition * scale,
            "sharing": sharing * scale,
            "library": fast,
        }
        differences[name] = max(
            abs(value - found[key]) for loop in (exact, shared) for key, value in loop.items()
        )
    seconds["all"] = {
        side: sum(times[side] for times in seconds.values()) for side in seconds["rps"]
    }
    return {
        "seconds": seconds,
        "times_faster": {
            name: {s: round(times[s] / times["library"], 2) for s in ("by definition", "sharing")}
            for name, times in seconds.items()
        },
        "largest_difference": differences,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--few", type=int, default=20, help="images for the loops")
    parser.add_argument("--steps", type=int, default=100, help="of the attack")
    parser.add_argument("--activation", default="softplus")
    parser.add_argument("--width", type=float, default=1.0, help="of LeNet; 0.25 in the suite")
    parser.add_argument("--data-dir", type=Path, default=None, help="with CIFAR-10 in it")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = rr.models.create(
        "lenet", classes=10, channels=3, size=32, activation=options.activation, width=options.width
    ).eval()
    library(model, cifar_like(2), "adv_insertion", 1)  # warms up
    batch = cifar_like(options.images)
    if options.data_dir is not None:
        batch = rr.datasets.load("cifar10", data_dir=options.data_dir).test.take(
            torch.arange(options.images)
        )
    found = measure(model, batch, options.few, options.steps)
    result = {
        "images": options.images,
        "few": options.few,
        "steps": options.steps,
        "data": "smooth random pictures" if options.data_dir is None else "CIFAR-10, test",
        "activation": options.activation,
        "width": options.width,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "machine": platform.processor() or platform.machine(),
        **found,
    }
    publish(result, options.out)


if __name__ == "__main__":
    main()
