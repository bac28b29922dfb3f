"""Train on Adult with `sex` masked, and say what the column can still change.

    OMP_NUM_THREADS=1 python benchmarks/adult_sex.py --data-dir DIR [--epochs 5] [--proxies]

For ERM and counterexamples: accuracy, worst group, flip rate when the column is exchanged, and the
share of test rows for which no value of the masked columns changes the answer. The audit ranks
`sex` among all columns: by how well it tells the label, and by what planting it does to the model.
Rows go to benchmarks/results/adult_sex.json.
"""

import argparse
import json
from pathlib import Path

import torch

import rightreasons as rr

ROWS = Path(__file__).parent / "results" / "adult_sex.json"
PROXIES = "sex,relationship,marital_status"


def rank_sex(model, data, seed):
    """Where `sex` stands among the columns in an audit of the training data, and its effect."""
    found = rr.audit(model, data.train, seed=seed, progress=False)
    columns = [*found.findings, *found.others]
    sex = next(one for one in columns if one.name == "sex")
    ranks = {
        "rank_tells": sum(one.tells_label > sex.tells_label for one in columns) + 1,
        "rank_planted": sum(one.effect.value > sex.effect.value for one in columns) + 1,
    }
    return {
        "columns": len(columns),
        **ranks,
        "tells_label": round(sex.tells_label, 4),
        "planted_effect": round(sex.effect.value, 4),
        "planted_low": round(sex.effect.low, 4),
        "planted_high": round(sex.effect.high, 4),
        "verdict": sex.verdict,
        "most_planted": max(columns, key=lambda one: one.effect.value).name,
    }


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
        key = {"recipe": name, "masked": masked, "seed": chosen.seed, "epochs": chosen.epochs}
        row = {
            **key,
            **kept,
            "proved": round(proof.summary["shares"]["verified"], 4),
            **rank_sex(model, data, chosen.seed),
        }
        print(json.dumps(row), flush=True)
        rows = json.loads(ROWS.read_text()) if ROWS.exists() else []
        others = [one for one in rows if any(one[part] != key[part] for part in key)]
        ROWS.write_text(json.dumps([*others, row], indent=1) + "\n")


if __name__ == "__main__":
    main()
