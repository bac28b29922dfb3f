"""How the time of a step grows with the batch, the image, draws, steps, depth, classes, tokens."""

from collections.abc import Callable
from typing import Any

import torch

import rightreasons as rr
from beside import measure
from beside.by_hand import plain
from beside.cases import IMAGE, SETTINGS, Case, corner_images, mlp, net, texts
from timing import Step

Made = tuple[Step, Step]
"""A step of cross-entropy and one of the recipe."""


def made(case: Case, recipe: str, **settings: Any) -> Made:
    return case.hand_step(plain), case.step(recipe, **settings)


def images(size: int, side: int = 32) -> Case:
    shape: dict[str, Any] = {**IMAGE, "size": (side, side)}
    return Case(net("lenet", **shape), corner_images(size, (3, side, side)), (), {})


def digits(*, classes: int = 10, depth: int = 1, size: int = 256) -> Case:
    batch = corner_images(size, (1, 28, 28), classes=classes)
    return Case(lambda: mlp(classes, depth), batch, (), {})


def tokens(number: int) -> Case:
    def model() -> torch.nn.Module:
        return rr.models.transformer(vocabulary=30522, classes=2)

    return Case(model, texts(4, number), (), {**SETTINGS, "r3": {"weight": 10.0}})


AXES: dict[str, tuple[str, tuple[int, ...], Callable[[int], Made]]] = {
    "batch": ("r3, LeNet", (8, 16, 32, 64), lambda n: made(images(n), "r3")),
    "image side": ("r3, LeNet", (16, 32, 64), lambda n: made(images(8, n), "r3")),
    "draws": ("rand_r4, MLP", (2, 4, 8, 16), lambda n: made(digits(), "rand_r4", num_samples=n)),
    "steps": ("adv_r4, MLP", (2, 4, 8, 16), lambda n: made(digits(), "adv_r4", num_steps=n)),
    "depth": ("r3, MLP", (1, 2, 4, 8), lambda n: made(digits(depth=n), "r3")),
    "depth of bounds": ("cert_r4, MLP", (1, 2, 4, 8), lambda n: made(digits(depth=n), "cert_r4")),
    "classes": ("density, MLP", (10, 100, 1000), lambda n: made(digits(classes=n), "density")),
    "tokens": ("r3, MiniLM", (16, 32, 64), lambda n: made(tokens(n), "r3")),
}


def measure_growth(axes: tuple[str, ...] = tuple(AXES)) -> dict[str, Any]:
    """For each axis, the time beside the smallest value, and beside cross-entropy."""
    result = {}
    for axis in axes:
        torch.manual_seed(0)
        what, values, make = AXES[axis]
        steps: dict[str, Step] = {}
        for value in values:
            steps[f"{value} plain"], steps[f"{value}"] = make(value)
        times = measure.take_turns(steps)
        found = {name: measure.ratio(times, name, str(values[0])) for name in steps}
        result[axis] = {
            "what": what,
            "rows": [
                {
                    "value": value,
                    "beside the first": found[str(value)],
                    "cross-entropy beside the first": round(
                        found[f"{value} plain"] / found[f"{values[0]} plain"], 3
                    ),
                    "beside cross-entropy": round(found[str(value)] / found[f"{value} plain"], 3),
                }
                for value in values
            ],
        }
    return result
