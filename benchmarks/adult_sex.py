"""Train on Adult with `sex` masked, and say what the column can still change.

    OMP_NUM_THREADS=1 python benchmarks/adult_sex.py --data-dir DIR [--epochs 5] [--proxies]

For ERM and counterexamples: accuracy, worst group, flip rate when the column is exchanged, and the
share of test rows for which no value of the masked columns changes the answer.
"""

import argparse
import json

import torch

import rightreasons as rr

PROXIES = "sex,relationship,marital_status"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--proxies", action="store_true", help=f"mask {PROXIES}")
    chosen = parser.parse_args()
    masked = PROXIES if chosen.proxies else "sex"
    data = rr.datasets.load("adult", data_dir=chosen.data_dir, masked=masked, seed=chosen.seed)
    metrics = ["accuracy", "group_accuracy", "swap_accuracy", "substitution_sensitivity"]
    for name in ("erm", "counterexamples"):
        torch.manual_seed(chosen.seed)
        model = rr.models.mlp(inputs=data.card.shape[0], hidden=(64,), classes=2)
        objective = getattr(rr.recipes, name)()
        rr.fit(model, objective, data.train, epochs=chosen.epochs, seed=chosen.seed)
        values = rr.evaluate(model, data.test, metrics)
        proof = rr.certify_substitutes(model, data.test)
        kept = {key: round(values[key], 4) for key in (*metrics[::3], "group_accuracy/worst")}
        print(json.dumps({"recipe": name, "masked": masked, **kept,
                          "proved": round(proof.summary["shares"]["verified"], 4)}))  # fmt: skip


if __name__ == "__main__":
    main()
