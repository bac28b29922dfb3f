"""What can be proved of models that were trained not to read the patch, and of one that was not.

Trains each recipe with its defaults on Decoy MNIST and certifies it over the full range of the
masked features: can any value of the patch change the prediction?

    python benchmarks/certificates.py --data-dir DIR [--out benchmarks/results/certificates.json]
"""

import argparse
import json
from pathlib import Path

import rightreasons as rr

RECIPES = ("erm", "r3", "ibp_ex", "cert_r4")


def certified(recipe: str, data: rr.datasets.Splits, epochs: int) -> dict[str, float]:
    """Worst group, and the shares of test samples with each verdict."""
    model = rr.models.create("mlp", classes=10, channels=1, size=(28, 28))
    objective = rr.objectives.recipes.RECIPES.create(recipe)
    rr.fit(model, objective, data.train, epochs=epochs, batch_size=250, lr=2e-3, seed=0)
    worst = rr.evaluate(model, data.test, ["group_accuracy"])["group_accuracy/worst"]
    summary = rr.certify(model, data.test, epsilon=None, method="ibp", progress=True).summary
    return {"worst group": round(worst, 4), **summary["shares"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    result = {}
    for colours in ("faint", "ross"):
        data = rr.datasets.decoy_mnist(options.data_dir, colours=colours, seed=0)
        result[colours] = {name: certified(name, data, options.epochs) for name in RECIPES}
        print(json.dumps(result[colours], indent=2), flush=True)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
