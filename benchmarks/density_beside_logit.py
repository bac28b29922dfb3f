"""Compare the gradients that Density and InputGrad penalise.

Density's gradient is the mean of all logits' gradients, weighted by their probabilities. InputGrad
has that of the label's logit. The surer a net is of the label, the closer the two are.
`rightreasons bench run density-table1 --out OUT` keeps its runs in `OUT/runs`. The script takes
those of each method's chosen setting, and training images, because the penalties act on these.

    python benchmarks/density_beside_logit.py OUT --data-dir DIR [--samples 1000]
        [--out benchmarks/results/density_beside_logit.json]
"""

import statistics

import torch
from torch import Tensor, nn
from torch.nn import functional

import rightreasons as rr
from chosen_runs import chosen_runs, runs_parser
from rightreasons.run import load_run
from timing import publish

SUITE = "density-table1"
METHODS = ("ST", "InputGrad", "Density (log-sum-exp)")


def gradient(of: Tensor, x: Tensor) -> Tensor:
    return torch.autograd.grad(of.sum(), x, retain_graph=True)[0].flatten(1)


def compared(model: nn.Module, batch: rr.Batch) -> dict[str, float]:
    """Return means over images: the label's probability, the gradients' cosine and lengths."""
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
    options = runs_parser(__doc__.split("\n")[0]).parse_args()
    runs, data = chosen_runs(SUITE, options.folder, options.data_dir, METHODS)
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
