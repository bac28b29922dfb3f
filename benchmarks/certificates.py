"""Certify models that were trained with and without guidance on Decoy MNIST.

Each recipe trains with its defaults. The certificate covers the full range of the masked features:
it says whether any value of the patch changes the prediction.

    python benchmarks/certificates.py --data-dir DIR [--out benchmarks/results/certificates.json]
"""

import argparse
from pathlib import Path

import rightreasons as rr
from timing import publish

RECIPES = ("erm", "r3", "ibp_ex", "cert_r4")


def certified(recipe: str, data: rr.datasets.Splits, epochs: int) -> dict[str, float]:
    """Measure the worst group and the shares of test samples with each verdict."""
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
    publish(result, options.out)


if __name__ == "__main__":
    main()
