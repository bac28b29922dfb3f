"""Steps of gradient penalties with ``torch.func.grad`` in a compiled graph."""

import copy
import time
from typing import Any

import torch
from torch import Tensor, nn, optim
from torch.func import functional_call, grad
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

import rightreasons as rr
from beside import measure
from beside.cases import IMAGE, corner_images
from timing import Step

KERNELS = ("convolution", "aten::mm", "aten::addmm")
NETS = {"LeNet": 1.0, "LeNet, a quarter as wide": 0.25}


def compiled_step(model: nn.Module, batch: rr.Batch, recipe: str) -> Step:
    """A step of ``r3`` or ``density`` in one compiled function."""
    optimizer = optim.Adam(model.parameters(), lr=1e-4)
    weights = dict(model.named_parameters())

    def losses(weights: dict[str, Tensor], x: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        def value(x: Tensor) -> tuple[Tensor, Tensor]:
            logits = functional_call(model, weights, (x,))
            task = functional.cross_entropy(logits, y, reduction="none")
            return (task if recipe == "r3" else logits.logsumexp(dim=1)).sum(), task

        gradient, task = grad(value, has_aux=True)(x)
        if recipe == "r3":
            return (task + 30 * (mask * gradient).square().flatten(1).sum(dim=1)).mean()
        return (task + 0.1 * gradient.flatten(1).norm(dim=1)).mean()

    compiled = torch.compile(losses)

    def step() -> None:
        loss = compiled(weights, batch.x, batch.y, batch.mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def eager_step(model: nn.Module, batch: rr.Batch, recipe: str) -> Step:
    objective = rr.recipes.RECIPES.create(recipe)
    optimizer = optim.Adam(model.parameters(), lr=1e-4)

    def step() -> None:
        loss = objective(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def measure_compiled() -> list[dict[str, Any]]:
    """A row for each net and recipe, after warm-up."""
    rows = []
    batch = corner_images(64, (3, 32, 32))
    for name, width in NETS.items():
        for recipe in ("r3", "density"):
            torch.manual_seed(0)
            model = rr.models.create("lenet", **IMAGE, width=width)
            eager = eager_step(model, batch, recipe)
            twin = copy.deepcopy(model)
            began = time.perf_counter()
            steps = {"eager": eager, "compiled": compiled_step(twin, batch, recipe)}
            steps["compiled"]()
            seconds = time.perf_counter() - began
            eager()
            difference = largest_difference(model, twin)
            times = measure.take_turns(steps)
            rows.append(
                {
                    "net": name,
                    "recipe": recipe,
                    "times faster": measure.ratio(times, "eager", "compiled"),
                    "convolutions": round(product_share(eager), 3),
                    "seconds to compile": round(seconds, 1),
                    "largest difference": difference,
                }
            )
    return rows


def largest_difference(model: nn.Module, other: nn.Module) -> float:
    """The largest difference of gradients after one step, beside the largest gradient."""
    pairs = [
        (one.grad, two.grad)
        for one, two in zip(model.parameters(), other.parameters(), strict=True)
        if one.grad is not None and two.grad is not None
    ]
    largest = max(float(one.abs().max()) for one, _ in pairs)
    return max(float((one - two).abs().max()) for one, two in pairs) / largest


def product_share(step: Step) -> float:
    """The time of convolutions and products as a share of all operations."""
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        step()
    found = [one for one in profiled.key_averages() if "aten::" in one.key]
    inside = sum(
        one.self_cpu_time_total for one in found if any(name in one.key for name in KERNELS)
    )
    return float(inside) / sum(one.self_cpu_time_total for one in found)
