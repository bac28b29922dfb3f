"""Steps with ``compile=True`` beside eager ones, where their time goes, and bfloat16 beside single.

The steps are compiled as `fit` compiles them, with `CompiledPasses`.
"""

import copy
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

import rightreasons as rr
import timing
from beside import measure
from beside.cases import IMAGE, corner_images
from rightreasons.objectives.compiled import CompiledPasses
from timing import Step

PRODUCTS = ("convolution", "aten::mm", "aten::addmm", "aten::bmm")
RECIPES = ("r3", "density", "alignment")
SECONDS, FEWEST = 2.0, 3


def narrow(width: int = 4, depth: int = 6) -> nn.Module:
    """A net with few channels and Softplus."""
    layers: list[nn.Module] = []
    for number in range(depth):
        layers += [nn.Conv2d(width if number else 3, width, 3, padding=1), nn.Softplus()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16 * width, 10))


def normalised(width: int = 8, depth: int = 4) -> nn.Module:
    """A net with few channels whose norms and activations are many operations in derivatives."""
    layers: list[nn.Module] = []
    for number in range(depth):
        convolution = nn.Conv2d(width if number else 3, width, 3, padding=1)
        layers += [convolution, nn.GroupNorm(2, width), nn.SiLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16 * width, 10))


def nets() -> dict[str, tuple[Callable[[], nn.Module], rr.Batch, tuple[str, ...]]]:
    """Nets by name, with a batch and the recipes that are timed."""
    images, larger = corner_images(32, (3, 32, 32)), corner_images(32, (3, 48, 48))
    larger_image = {**IMAGE, "size": (48, 48)}
    slim = partial(rr.models.create, "resnet18", **IMAGE, width=0.25)
    return {
        "small_cnn": (partial(rr.models.create, "small_cnn", **larger_image), larger, RECIPES),
        "LeNet": (partial(rr.models.create, "lenet", **IMAGE), images, RECIPES),
        "ResNet-18, slim": (slim, images[:16], ("density",)),
        "narrow, Softplus": (narrow, images, RECIPES),
        "narrow, GroupNorm, SiLU": (normalised, images, RECIPES),
    }


def measure_compiled(chosen: Callable[[str, str], bool]) -> list[dict[str, Any]]:
    """A row for each net and recipe that is chosen, after warm-up."""
    rows = []
    for name, (make, batch, recipes) in nets().items():
        for recipe in (one for one in recipes if chosen(name, one)):
            torch.manual_seed(0)
            rows.append({"net": name, "recipe": recipe, **compiled_row(make(), batch, recipe)})
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows


def compiled_row(model: nn.Module, batch: rr.Batch, recipe: str) -> dict[str, Any]:
    """The times of a step, eager, compiled and in bfloat16, and what it spends them on."""

    def objective() -> rr.Objective:
        return rr.recipes.RECIPES.create(recipe).with_settings(frozen_statistics=True)

    twin, double = copy.deepcopy(model), copy.deepcopy(model).double()
    of_twin, passes = objective(), CompiledPasses(num_rows=len(batch))
    of_twin.compiled = passes
    steps = {
        "eager": timing.library_step(model, batch, objective()),
        "compiled": timing.library_step(twin, batch, of_twin),
        "bfloat16": in_bfloat16(timing.library_step(copy.deepcopy(model), batch, objective())),
    }
    began = time.perf_counter()
    torch.manual_seed(0)
    steps["compiled"]()
    seconds = time.perf_counter() - began
    torch.manual_seed(0)
    steps["eager"]()
    off = {"largest difference": largest_difference(model, twin)}
    if recipe != "alignment":  # which draws other points in double precision
        timing.library_step(double, batch.to(torch.float64), objective())()
        off["difference of double precision"] = largest_difference(double, model)
    times = measure.take_turns(steps, seconds=SECONDS, fewest=FEWEST)
    return {
        "times faster": measure.ratio(times, "eager", "compiled"),
        "milliseconds": round(1000 * min(times["eager"]), 1),
        "times faster in bfloat16": measure.ratio(times, "eager", "bfloat16"),
        **shares(steps["eager"]),
        "seconds to compile": round(seconds, 1),
        **off,
        "refusal": passes.refusal,
    }


def in_bfloat16(step: Step) -> Step:
    """The same step as ``precision="bf16-mixed"`` takes it."""

    def lower() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            step()

    return lower


def largest_difference(model: nn.Module, other: nn.Module) -> float:
    """The largest difference of gradients after one step, beside the largest gradient."""
    pairs = [
        (one.grad, two.grad)
        for one, two in zip(model.parameters(), other.parameters(), strict=True)
        if one.grad is not None and two.grad is not None
    ]
    largest = max(float(one.abs().max()) for one, _ in pairs)
    return max(float((one - two).abs().max()) for one, two in pairs) / largest


def shares(step: Step) -> dict[str, float]:
    """The parts of a step's time: convolutions and products, other operations, and the rest."""
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        began = time.process_time()
        step()
        whole = 1e6 * (time.process_time() - began)
    found = [one for one in profiled.key_averages() if "aten::" in one.key]
    inside = sum(one.self_cpu_time_total for one in found)
    products = sum(
        one.self_cpu_time_total for one in found if any(name in one.key for name in PRODUCTS)
    )
    whole = max(whole, inside)
    return {
        "convolutions": round(products / whole, 3),
        "other operations": round((inside - products) / whole, 3),
        "outside": round(1 - inside / whole, 3),
    }
