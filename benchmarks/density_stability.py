"""Draw the density gradient's size during training, and over the size of logits.

The first figure is the density paper's Figure 2a. Two nets train from the same weights on the same
batches, in single precision. One has the plain form of the density term (equation 4), the other the
log-sum-exp. The rate grows from step to step, and the logits grow with it. Each line shows the mean
norm of the log-density's gradient over a batch, as its form computes it. It ends where the norm or
the next step is no number. The second figure does not train. It adds a constant to all logits of a
fresh net, which changes nothing in exact arithmetic.

    python benchmarks/density_stability.py [--model mlp2] [--steps 150] [--last-rate 0.12]
        [--weight 0.01] [--data-dir ../shared/data] [--pictures docs/images]
        [--out benchmarks/results/density_stability.json]

writes OUT, and among the pictures density_stability.svg (training) and
density_stability_logits.svg.
"""

import argparse
import json
import math
from pathlib import Path

import torch
from torch import nn, optim

import rightreasons as rr
from line_figure import Points, line_figure
from rightreasons.objectives import Density
from rightreasons.run.config import Config

FORMS = ("plain", "logsumexp")
COLOURS = {"plain": "#c2410c", "logsumexp": "#1d4ed8"}
SHIFTS = [
    0.0,
    *(sign * size for size in (50, 80, 87.5, 90, 95, 100, 110, 1e3, 1e4) for sign in (1, -1)),
]


def size_of(form: str, model: nn.Module, batch: rr.Batch) -> float | None:
    """Return the mean norm that a form of the term gives, or None if it is not finite."""
    value = Density(form=form).as_objective()(model, batch).total.item()
    return value if math.isfinite(value) else None


class Shifted(nn.Module):
    """A net with a constant added to its logits."""

    def __init__(self, net: nn.Module, shift: float) -> None:
        super().__init__()
        self.net, self.shift = net, shift

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the shifted logits."""
        logits: torch.Tensor = self.net(x) + self.shift
        return logits


def trained(
    form: str, config: Config, steps: int, last_rate: float, weight: float
) -> tuple[Points, Points]:
    """Return the term's size and the largest logit at every step, until one is no number."""
    data = config.load_data()
    model = config.build_model(data)
    objective = rr.recipes.density(form=form, weight=weight)
    optimizer = optim.Adam(model.parameters(), lr=last_rate)
    order = torch.Generator().manual_seed(0)
    sizes: Points = []
    logits: Points = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = last_rate * (step + 1) / steps
        batch = data.train.take(torch.randint(len(data.train), (128,), generator=order))
        loss = objective(model, batch)
        size = loss.parts["density"].item()
        sizes.append((step, size if math.isfinite(size) else None))
        logits.append((step, loss.logits.abs().max().item()))
        if sizes[-1][1] is None:
            break
        optimizer.zero_grad()
        loss.backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        if not all(bool(gradient.isfinite().all()) for gradient in gradients):
            sizes.append((step + 1, None))  # the next weights would be no numbers
            break
        optimizer.step()
    return sizes, logits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="mlp2")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--last-rate", type=float, default=0.12)
    parser.add_argument("--weight", type=float, default=0.01)
    parser.add_argument("--subset", type=int, default=10_000)
    parser.add_argument("--data-dir", default="../shared/data")
    results_file = Path("benchmarks/results/density_stability.json")
    parser.add_argument("--out", type=Path, default=results_file)
    parser.add_argument("--pictures", type=Path, default=Path("docs/images"))
    options = parser.parse_args()
    config = Config(
        data="block_mnist",
        model=options.model,
        data_dir=options.data_dir,
        data_settings={"subset": options.subset},
    )
    settings = (options.steps, options.last_rate, options.weight)
    results = {form: trained(form, config, *settings) for form in FORMS}
    data = config.load_data()
    model, batch = config.build_model(data), data.train.take(torch.arange(128))
    sweep = {
        form: [(shift, size_of(form, Shifted(model, shift), batch)) for shift in sorted(SHIFTS)]
        for form in FORMS
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "settings": {
            key: str(value)
            for key, value in vars(options).items()
            if key not in ("out", "pictures")
        },
        "training": {form: points for form, (points, _) in results.items()},
        "largest logit": {form: logits for form, (_, logits) in results.items()},
        "shifted logits": sweep,
    }
    options.out.write_text(json.dumps(record) + "\n")
    title = "Norm of the log-density's gradient"
    training = {form: points for form, (points, _) in results.items()}
    picture = options.pictures / "density_stability.svg"
    picture.write_text(
        line_figure(
            f"{title} in training", ("step 0", f"step {options.steps - 1}"), training, COLOURS
        )
    )
    ranks = {
        form: [(float(rank), size) for rank, (_, size) in enumerate(points)]
        for form, points in sweep.items()
    }
    shifted = options.pictures / "density_stability_logits.svg"
    shifted.write_text(
        line_figure(
            f"{title} by what is added to all logits", ("-10,000", "+10,000"), ranks, COLOURS
        )
    )
    for form, (points, logits) in results.items():
        end = points[-1]
        print(f"{form}: step {end[0]}, norm {end[1]}, largest logit {logits[-1][1]:.4g}")


if __name__ == "__main__":
    main()
