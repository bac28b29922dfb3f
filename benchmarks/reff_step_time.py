"""Measure the time of a step of ReFF, as ratios in one run.

The script compares ReFF with four layers, with the first and with the last one alone. Each stands
beside the same formula written by hand and beside a cross-entropy step. The first layer alone needs
the backward pass that serves all four. The last one alone needs almost none. Each round runs every
step once, in turn, so that a busy machine slows all of them. The figures are medians over rounds of
the ratio within a round.

    python benchmarks/reff_step_time.py [--rounds 10] [--batch-size 32] [--size 32] [--width 1.0]
        [--frozen] [--out benchmarks/results/reff_step_time.json]

--frozen lets the penalty see the net as at test time, one more forward pass in a net with
BatchNorm, in the library and by hand.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn, optim
from torch.nn import functional

import rightreasons as rr
from timing import Step, library_step, machine, publish, ratio, seconds_of, step_parser

BASE = "cross_entropy by hand"
FOUR = ("layer1", "layer2", "layer3", "layer4")
FORMS: dict[str, tuple[str, ...]] = {
    "reff, four layers": FOUR,
    "reff, first layer": FOUR[:1],
    "reff, last layer": FOUR[-1:],
}


def reff_by_hand(
    model: nn.Module, x: Tensor, y: Tensor, mask: Tensor, layers: Sequence[str]
) -> tuple[Tensor, Tensor]:
    """Return logits and the penalty of each sample, with hooks written by hand."""
    kept: list[Tensor] = []
    hooks = [
        model.get_submodule(name).register_forward_hook(lambda _m, _i, out: kept.append(out))
        for name in layers
    ]
    logits = model(x)
    for hook in hooks:
        hook.remove()
    slopes = torch.autograd.grad(logits.gather(1, y[:, None]).sum(), kept, create_graph=True)
    total = torch.zeros(len(x))
    for maps, slope in zip(kept, slopes, strict=True):
        weights = slope.mean(dim=(2, 3), keepdim=True)
        cam = functional.relu((weights * maps).sum(dim=1, keepdim=True))
        cam = functional.interpolate(cam, size=mask.shape[2:], mode="bilinear")
        cam = cam / cam.sum(dim=(2, 3), keepdim=True).clamp_min(1e-12)
        factor = mask[0].numel() / maps[0, 0].numel()
        total = total + factor * (mask * cam).square().sum(dim=(1, 2, 3))
    return logits, total


def hand_step(
    model: nn.Module, batch: rr.Batch, layers: Sequence[str] | None, *, frozen: bool
) -> Step:
    """Write a step by hand. Without layers it is cross-entropy alone."""
    optimizer = optim.Adam(model.parameters(), lr=1e-4)
    mask = batch.mask

    def step() -> None:
        if layers is None or frozen or mask is None:
            logits = model(batch.x)
        else:
            logits, penalty = reff_by_hand(model, batch.x, batch.y, mask, layers)
        if layers is not None and frozen and mask is not None:
            model.eval()
            penalty = reff_by_hand(model, batch.x, batch.y, mask, layers)[1]
            model.train()
        loss = functional.cross_entropy(logits, batch.y)
        if layers is not None:
            loss = loss + penalty.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def measure(
    *, rounds: int, batch_size: int, size: int, width: float, frozen: bool
) -> dict[str, dict[str, float]]:
    """Return ratios to cross-entropy, to the same step by hand, and of four layers to one."""
    batch = rr.Batch(
        x=torch.rand(batch_size, 3, size, size),
        y=torch.randint(10, (batch_size,)),
        mask=(torch.rand(batch_size, 1, size, size) < 0.8).float(),
    )

    def net() -> nn.Module:
        return rr.models.resnet18(classes=10, size=size, width=width)

    steps = {BASE: hand_step(net(), batch, None, frozen=frozen)}
    for name, layers in FORMS.items():
        steps[f"{name} by hand"] = hand_step(net(), batch, layers, frozen=frozen)
        objective = rr.recipes.reff(layers=layers).with_settings(frozen_statistics=frozen)
        steps[name] = library_step(net(), batch, objective)
    seconds = seconds_of(steps, rounds)
    result = {name: {"beside cross-entropy": ratio(seconds, name, BASE)} for name in steps}
    for name in FORMS:
        result[name]["beside by hand"] = ratio(seconds, name, f"{name} by hand")
    four, *single = FORMS
    for name in single:
        result[four][f"beside {name}"] = ratio(seconds, four, name)
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    parser = step_parser(__doc__, rounds=10)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--width", type=float, default=1.0)
    parser.add_argument("--frozen", action="store_true")
    options = parser.parse_args(arguments)
    torch.manual_seed(0)
    settings = {name: value for name, value in vars(options).items() if name != "out"}
    result = {"resnet18": measure(**settings), "settings": settings, "machine": machine()}
    publish(result, options.out)


if __name__ == "__main__":
    main()
