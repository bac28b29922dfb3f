"""Measure the time of a training step, as ratios in one run.

Each round times every kind of step once, in turn, so that a busy machine slows all of them. The
figures are medians over rounds of the ratio within a round.

    OMP_NUM_THREADS=1 python benchmarks/step_time.py [--rounds 40] [--out FILE]

One thread, set from outside before torch starts, is least noisy.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn, optim
from torch.nn import functional

import rightreasons as rr
import timing
from timing import Step


def r3_by_hand(model: nn.Module, batch: rr.Batch) -> Step:
    """Write a step of the formula of `rr.recipes.r3` by hand, with a double backward pass."""
    optimizer = optim.Adam(model.parameters(), lr=1e-4)

    def step() -> None:
        x = batch.x.detach().requires_grad_()
        losses = functional.cross_entropy(model(x), batch.y, reduction="none")
        (gradient,) = torch.autograd.grad(losses.sum(), x, create_graph=True)
        penalty = (batch.mask * gradient).square().flatten(1).sum(dim=1)
        optimizer.zero_grad()
        (losses.mean() + 30.0 * penalty.mean()).backward()
        optimizer.step()

    return step


def corner_batch(size: int, shape: tuple[int, int, int]) -> rr.Batch:
    """Make random images with a 4 x 4 mask in one of the four corners, as in Decoy MNIST."""
    x = torch.rand(size, *shape)
    mask: Tensor = torch.zeros(size, 1, *shape[1:])
    for number in range(size):
        rows = slice(0, 4) if number % 2 else slice(-4, None)
        columns = slice(0, 4) if number // 2 % 2 else slice(-4, None)
        mask[number, :, rows, columns] = 1
    return rr.Batch(x=x, y=torch.randint(10, (size,)), mask=mask)


def medians(steps: dict[str, Step], base: str, rounds: int) -> dict[str, float]:
    """Return the median over rounds of each step's time relative to ``base`` in the same round."""
    seconds = timing.seconds_of(steps, rounds, warm_up=3)
    return {name: timing.ratio(seconds, name, base) for name in steps}


def measure(
    model: Callable[[], nn.Module], batch: rr.Batch, rounds: int, boxes: bool
) -> dict[str, float]:
    """Return the ratios of one net. ``boxes`` adds the recipes that move masked features."""
    steps = {
        "cross_entropy by hand": timing.cross_entropy_step(model(), batch),
        "erm": timing.library_step(model(), batch, rr.recipes.erm()),
        "r3 by hand": r3_by_hand(model(), batch),
        "r3": timing.library_step(model(), batch, rr.recipes.r3()),
    }
    if boxes:
        more = {
            "smooth_r3, 5 samples": rr.recipes.smooth_r3(num_samples=5),
            "ibp_ex": rr.recipes.ibp_ex(),
            "rand_r4, 10 samples": rr.recipes.rand_r4(num_samples=10),
            "adv_r4, 10 steps": rr.recipes.adv_r4(num_steps=10),
            "cert_r4": rr.recipes.cert_r4(),
        }
        for name, recipe in more.items():
            steps[name] = timing.library_step(model(), batch, recipe)
    result = medians(steps, "cross_entropy by hand", rounds)
    by_hand = medians({k: steps[k] for k in ("r3 by hand", "r3")}, "r3 by hand", rounds)
    result["r3 relative to r3 by hand"] = by_hand["r3"]
    return result


def main() -> None:
    options = timing.step_parser(__doc__, rounds=40).parse_args()
    torch.manual_seed(0)
    result = {
        "mlp 784-512-10, batch 1000": measure(
            lambda: rr.models.mlp(inputs=784, hidden=(512,), classes=10),
            corner_batch(1000, (1, 28, 28)),
            options.rounds,
            boxes=True,
        ),
        "lenet 32x32, batch 128": measure(
            lambda: rr.models.lenet(classes=10, channels=3, size=32),
            corner_batch(128, (3, 32, 32)),
            options.rounds,
            boxes=False,
        ),
        "machine": timing.machine(),
    }
    timing.publish(result, options.out)


if __name__ == "__main__":
    main()
