"""Fine-tune a trained model that reads a shortcut, beside the model it was and an oracle.

Tagged Pets and EfficientNet-Lite0 with ImageNet's weights. ERM trains on tags that name the animal
and ends with a model that reads them. Each recipe then starts from those weights, with its
defaults. The oracle is ERM on tags that tell nothing.

    python benchmarks/fine_tuning.py --data-dir DIR [--out benchmarks/results/fine_tuning.json]
"""

import argparse
import copy
from pathlib import Path

import torch
from torch import nn

import rightreasons as rr
from timing import publish

RECIPES = ("counterexamples", "r3")


def trained(model: nn.Module, recipe: str, data: rr.datasets.Splits, epochs: int, seed: int):
    objective = rr.objectives.recipes.RECIPES.create(recipe)
    rr.fit(model, objective, data.train, epochs=epochs, batch_size=50, seed=seed, progress=True)
    values = rr.evaluate(model, data.test, ["accuracy", "group_accuracy"])
    return {
        "worst group": round(values["group_accuracy/worst"], 4),
        "accuracy": round(values["accuracy"], 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    result = {}
    for seed in options.seeds:
        rows = {}
        for oracle in (True, False):
            data = rr.datasets.pets_tag(
                options.data_dir, size=options.size, oracle=oracle, seed=seed
            )
            torch.manual_seed(seed)
            model = rr.models.efficientnet_lite0(classes=2, pretrained=True)
            rows["oracle" if oracle else "erm"] = trained(model, "erm", data, options.epochs, seed)
        for recipe in RECIPES:
            tuned = copy.deepcopy(model)
            rows[f"erm, then {recipe}"] = trained(tuned, recipe, data, options.epochs, seed)
        result[f"seed {seed}"] = rows
        publish(result, options.out)


if __name__ == "__main__":
    main()
