"""How far apart are the gradients that Density and InputGrad make small?

Density's is the mean of all logits' gradients, weighted by their probabilities; InputGrad's is that
of the label's logit alone. The surer a net is of the label, the nearer they come to each other. Of
the runs that `rightreasons bench run density-table1 --out OUT` left in `OUT/runs`, those of each
method's chosen setting; on training images, where the penalties act.

    python benchmarks/density_beside_logit.py OUT --data-dir DIR [--samples 1000]
        [--out benchmarks/results/density_beside_logit.json]
"""

import argparse
import statistics
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

import rightreasons as rr
from rightreasons import benchmark
from rightreasons.run import load_run
from timing import publish

SUITE = "density-table1"
METHODS = ("ST", "InputGrad", "Density (log-sum-exp)")


def chosen_runs(folder: Path) -> list[tuple[str, Path]]:
    """Each method's name with each of its runs."""
    return [
        (line.line.method.name, folder / "runs" / row.address)
        for line in benchmark.show_suite(SUITE, folder).lines
        for row in line.rows
        if line.line.method.name in METHODS and not row.failure
    ]


def gradient(of: Tensor, x: Tensor) -> Tensor:
    return torch.autograd.grad(of.sum(), x, retain_graph=True)[0].flatten(1)


def compared(model: nn.Module, batch: rr.Batch) -> dict[str, float]:
    """Means over images: the label's probability, and the two gradients' cosine and lengths."""
    x = batch.x.clone().requires_grad_()
    logits = model.eval()(x)
    label = logits.gather(1, batch.y[:, None]).squeeze(1)
    density, own = gradient(torch.logsumexp(logits, dim=1), x), gradient(label, x)
    found = {
        "probability of the label": functional.softmax(logits, dim=1).gather(1, batch.y[:, None]),
        "cosine of the gradients": functional.cosine_similarity(density, own),
        "length beside InputGrad's": density.norm(dim=1) / own.norm(dim=1),
    }
    return {name: float(values.detach().mean()) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    runs = chosen_runs(options.folder)
    if not runs:
        parser.error(f"no runs of {SUITE} in {options.folder}: run the suite first")
    config = load_run(runs[0][1]).config
    data = rr.datasets.load(config.data, data_dir=options.data_dir, **config.data_settings)
    batch = data.train.take(torch.arange(min(options.samples, len(data.train))))
    values: dict[str, list[dict[str, float]]] = {}
    for name, folder in runs:
        values.setdefault(name, []).append(compared(load_run(folder).load_model(data), batch))
    rows = {
        name: {key: round(statistics.fmean(each[key] for each in found), 3) for key in found[0]}
        for name, found in values.items()
    }
    publish({"training images": len(batch), "means over seeds": rows}, options.out)


if __name__ == "__main__":
    main()
