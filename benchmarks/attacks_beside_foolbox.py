"""Compare PGD and APGD with Foolbox's PGD on the same net and images, by the accuracy left.

Foolbox reports its last point. PGD here reports the first point that fools the net. Deterministic
attacks of fewer steps are the beginnings of longer ones. Foolbox's attacks of 1, 2, ... steps
together therefore show whether any point fools the net. PGD here must equal that column image by
image. APGD with the loss of PGD takes as many steps as PGD. The pair of AutoAttack takes these and
as many for each of up to nine rivals, ten times as many in all. The script compares it with ten
runs of PGD.

    pip install foolbox
    python benchmarks/attacks_beside_foolbox.py [--images 800] [--steps 20]
        [--out benchmarks/results/attacks_beside_foolbox.json]
"""

import argparse
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

import rightreasons as rr
from rightreasons.attacks import APGD, PGD, apgd_pair, strongest_of
from timing import publish

RADII = {"linf": (0.03, 0.06, 0.1), "l2": (0.2, 0.4, 0.7)}
SHARE_OF_RADIUS = 1 / 8
NUM_RUNS = 10


def trained(data: rr.datasets.Splits) -> nn.Module:
    torch.manual_seed(0)
    model = rr.models.mlp(inputs=196, hidden=(32,), classes=10)
    rr.fit(
        model,
        rr.recipes.erm(),
        data.train,
        epochs=8,
        batch_size=50,
        lr=5e-3,
        progress=False,
    )
    return model.eval()


def fooled_by_foolbox(
    model: nn.Module, x: Tensor, y: Tensor, norm: str, epsilon: float, steps: int
) -> Tensor:
    import foolbox

    kind = {"linf": foolbox.attacks.LinfPGD, "l2": foolbox.attacks.L2PGD}[norm]
    attack = kind(
        abs_stepsize=SHARE_OF_RADIUS * epsilon, rel_stepsize=None, steps=steps, random_start=False
    )
    _, _, fooled = attack(foolbox.PyTorchModel(model, bounds=(0, 1)), x, y, epsilons=epsilon)
    return fooled


def compared(
    model: nn.Module, x: Tensor, y: Tensor, norm: str, epsilon: float, steps: int
) -> dict[str, float]:
    theirs = [
        fooled_by_foolbox(model, x, y, norm, epsilon, number) for number in range(1, steps + 1)
    ]
    settings = {"epsilon": epsilon, "norm": norm, "num_steps": steps}
    pgd = partial(PGD, **settings, step_size=SHARE_OF_RADIUS * epsilon)
    ours = pgd(random_start=False)(model, x, y)
    again = pgd(num_restarts=NUM_RUNS)(model, x, y)
    same_loss = APGD(**settings)(model, x, y)
    pair = strongest_of(apgd_pair(**settings), model, x, y)
    fooled = {
        "foolbox, last point": theirs[-1],
        "foolbox, any point": torch.stack(theirs).any(dim=0),
        "pgd": ours.fooled,
        "apgd, CE": same_loss.fooled,
        "pgd, ten runs": again.fooled,
        "apgd, CE and DLR": pair.fooled,
    }
    left = {name: round(1 - one.float().mean().item(), 4) for name, one in fooled.items()}
    differ = fooled["foolbox, any point"] != fooled["pgd"]
    return {**left, "images on which pgd and foolbox, any point, differ": int(differ.sum())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--images", type=int, default=800)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    data = rr.datasets.decoy_digits(seed=0)
    model = trained(data)
    batch = data.train.take(torch.arange(options.images))
    found = {
        f"{norm} {epsilon:g}": compared(model, batch.x, batch.y, norm, epsilon, options.steps)
        for norm, radii in RADII.items()
        for epsilon in radii
    }
    result = {"images": options.images, "steps": options.steps, "accuracy": found}
    publish(result, options.out)


if __name__ == "__main__":
    main()
