"""Measure the time of a step of density smoothing, as ratios in one run.

The script compares all forms with plain cross-entropy, with the input-gradient penalty, and with
the log-sum-exp formula written by hand. It does so with few and with many classes. Each round runs
every step once, in turn, so that a busy machine slows all of them. The figures are medians over
rounds of the ratio within a round. Ratios are to cross-entropy with the same number of classes,
which removes the last layer's cost from the comparison of few and many classes. Short steps are
repeated within a round.

    python benchmarks/density_step_time.py [--rounds 7] [--models mlp2 resnet18]
        [--classes 10 1000] [--batch-size 128] [--frozen-statistics]
        [--out benchmarks/results/density_step_time.json]
"""

import torch
from torch import nn, optim
from torch.nn import functional

import rightreasons as rr
import timing
from timing import Step

BASE = "cross_entropy by hand"
PENALTY = "input_gradient"
FORMS = {"mlp2": ("logsumexp", "plain", "stable", "efficient"), "resnet18": ("logsumexp",)}
REPEATS = {"mlp2": 20, "resnet18": 1}
SHAPES = {"mlp2": (1, 56, 28), "resnet18": (3, 32, 32)}
LEARNING_RATE = 1e-6  # all steps of a net share its weights, which should stay where they are


def density_by_hand(model: nn.Module, optimizer: optim.Optimizer, batch: rr.Batch) -> Step:
    """Write a step of the log-sum-exp formula by hand."""

    def step() -> None:
        x = batch.x.detach().requires_grad_()
        logits = model(x)
        density = logits.logsumexp(dim=1).sum()
        (gradient,) = torch.autograd.grad(density, x, create_graph=True)
        penalty = gradient.flatten(1).norm(dim=1).mean()
        optimizer.zero_grad()
        (functional.cross_entropy(logits, batch.y) + 0.1 * penalty).backward()
        optimizer.step()

    return step


def repeated(step: Step, number: int) -> Step:
    """Repeat a step several times."""

    def steps() -> None:
        for _ in range(number):
            step()

    return steps


def steps_of(name: str, classes: int, batch_size: int, frozen: bool) -> dict[str, Step]:
    """Make every step for a net with this number of classes."""
    channels, *size = SHAPES[name]
    model = rr.models.create(name, classes=classes, channels=channels, size=tuple(size))
    optimizer = optim.Adam(model.parameters(), lr=LEARNING_RATE)
    y = torch.randint(classes, (batch_size,))
    batch = rr.Batch(x=torch.rand(batch_size, *SHAPES[name]), y=y)

    def made(objective: rr.Objective) -> Step:
        seen = objective.with_settings(frozen_statistics=frozen)
        return timing.library_step(model, batch, seen, optimizer)

    steps = {
        BASE: timing.cross_entropy_step(model, batch, optimizer),
        "erm": made(rr.recipes.erm()),
        PENALTY: made(rr.recipes.input_gradient()),
        "density by hand": density_by_hand(model, optimizer, batch),
        **{f"density {form}": made(rr.recipes.density(form=form)) for form in FORMS[name]},
    }
    return {kind: repeated(step, REPEATS[name]) for kind, step in steps.items()}


def measure(
    name: str,
    classes: list[int],
    rounds: int,
    batch_size: int,
    frozen: bool,
) -> dict[str, dict[str, float]]:
    steps = {
        f"{step}, {number}": run
        for number in classes
        for step, run in steps_of(name, number, batch_size, frozen).items()
    }
    kinds = [step.removesuffix(f", {classes[0]}") for step in steps][: len(steps) // len(classes)]
    seconds = timing.seconds_of(steps, rounds)
    result = {}
    for number in classes:
        times = {step: seconds[f"{step}, {number}"] for step in kinds}
        result[f"{number} classes"] = {step: timing.ratio(times, step, BASE) for step in kinds}
        result[f"{number} classes, beside {PENALTY}"] = {
            step: timing.ratio(times, step, PENALTY) for step in kinds if step.startswith("density")
        }
    few, many = result[f"{min(classes)} classes"], result[f"{max(classes)} classes"]
    result["many classes beside few"] = {step: round(many[step] / few[step], 3) for step in kinds}
    return result


def main() -> None:
    parser = timing.step_parser(__doc__, rounds=7)
    parser.add_argument("--models", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--classes", nargs="+", type=int, default=[10, 1000])
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--frozen-statistics", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    result: dict[str, object] = {
        f"{name}, batch {options.batch_size}": measure(
            name,
            options.classes,
            options.rounds,
            options.batch_size,
            options.frozen_statistics,
        )
        for name in options.models
    }
    own = {"rounds": options.rounds, "frozen_statistics": options.frozen_statistics}
    result["machine"] = timing.machine() | own
    timing.publish(result, options.out)


if __name__ == "__main__":
    main()
