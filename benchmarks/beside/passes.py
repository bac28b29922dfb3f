"""Where the time of a step goes: the kernels' share, and passes made beside passes needed.

A pass is the arithmetic of one forward pass over the batch. Products and convolutions are counted,
as `torch.utils.flop_counter` does. A layer needs one for its output, one for the gradient of its
input, and one for the gradient of its weights. So cross-entropy needs three.
"""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from beside.cases import Case, cases
from timing import Step


class Arithmetic(TorchDispatchMode):
    """Counts the arithmetic of products and convolutions inside the context.

    `FlopCounterMode` also follows modules, which fails where a step takes gradients itself.
    """

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        del types
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.convolution_backward.default:
            # PyTorch's count leaves groups out, which depthwise convolutions have.
            gradient, x, weight, is_transposed, wanted = *args[:3], args[7], args[10]
            moved = x if is_transposed else gradient
            self.total += 2 * moved.numel() * weight[0].numel() * sum(wanted[:2])
        elif func._overloadpacket in flop_registry:
            count = flop_registry[func._overloadpacket]
            self.total += count(*args, **(kwargs or {}), out_val=result)
        return result


TASK = 3.0
GRADIENT = 2.0
"""A forward pass, and the gradient of its input."""
SECOND = 2.0
"""The gradient of an input gradient for the weights: a pass forwards, and one for the weights."""
BACK = 2.0
"""A backward pass with the gradients of the weights."""
NEEDED: dict[str, float] = {
    "erm": TASK,
    "counterexamples": TASK,
    "spectral_decoupling": TASK,
    "group_dro": TASK,
    "cvar_dro": TASK,
    "one_sided": TASK,
    "deep_gamblers": TASK,
    # The task's pass serves the penalty, whose way back through the logits joins the task's.
    **dict.fromkeys(("r3", "density", "group_dro_density"), TASK + 1 + SECOND),
    # The gradient of a logit in a net of ReLUs does not depend on the logits.
    "input_gradient": TASK + 1 + SECOND,
    "smooth_r3": TASK + 3 * (GRADIENT + SECOND + BACK),
    "rand_r4": TASK + 5 * GRADIENT + GRADIENT + SECOND + BACK,
    "adv_r4": TASK + 3 * (GRADIENT + 2) + GRADIENT + GRADIENT + SECOND + BACK,
    "pgd_ex": TASK + 5 * GRADIENT + 1 + TASK,
    "at_fgsm": TASK + 1 + TASK,
    "at_pgd": 5 * GRADIENT + TASK,
    "score_matching": TASK + 1 + SECOND + 2 * TASK,
    **dict.fromkeys(("l2_alignment", "alignment"), TASK + 1 + GRADIENT + SECOND),
    "hessian": TASK + 1 + 2 + 2 * (SECOND + BACK),
    "cure": TASK + 1 + SECOND + GRADIENT + SECOND + BACK,
    "atex": TASK + 1 + 1 + TASK,
    **dict.fromkeys(("reff", "reff_l1", "reff_l2"), TASK + 1 + SECOND),
}
"""Passes that the formula of a recipe needs with its defaults, for a net of one cost a layer."""


def measure_passes(chosen: Callable[[str, str], bool]) -> list[dict[str, Any]]:
    """A row for each net and recipe."""
    torch.manual_seed(0)
    return [
        row(name, case, recipe)
        for name, case in cases().items()
        for recipe in case.recipes
        if chosen(name, recipe)
    ]


def row(name: str, case: Case, recipe: str) -> dict[str, Any]:
    step = case.step(recipe)
    step()
    with Arithmetic() as forward, torch.no_grad():
        case.make().eval()(case.batch.x, **(case.batch.inputs or {}))
    with Arithmetic() as whole:
        step()
    made = whole.total / forward.total
    result: dict[str, Any] = {"net": name, "recipe": recipe, "passes made": round(made, 2)}
    if recipe in NEEDED and name != "MiniLM":
        result["passes needed"] = NEEDED[recipe]
    return {**result, "kernels": round(kernel_share(step), 3)}


def kernel_share(step: Step) -> float:
    """The time inside PyTorch's operations as a share of the time of the step, by one clock."""
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        began = time.perf_counter()
        step()
        taken = time.perf_counter() - began
    inside = sum(one.self_cpu_time_total for one in profiled.key_averages() if "aten::" in one.key)
    return float(inside) / 1e6 / taken
