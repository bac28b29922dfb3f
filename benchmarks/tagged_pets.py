"""Run the commands of examples/tagged_pets.sh, or two_shortcuts.sh, and measure what they reach.

    python benchmarks/tagged_pets.py --data-dir DIR --work WORK --net small_cnn \
        --out benchmarks/results/audit/tagged_pets.json
    python benchmarks/tagged_pets.py --data-dir DIR --work WORK --shortcut tag_and_cast \
        --out benchmarks/results/audit/tagged_pets.json

The commands read a folder of photographs without masks, so the audit cannot see the true ones. This
script reads these afterwards, to compare. The oracle is trained on the same photographs with random
tags and casts, for as many epochs as the original and its repair together. Rows are kept by net,
shortcut, size and seed. A folder that has a result is not run again.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

import rightreasons as rr
from rightreasons.run.shortcuts import read_shortcuts, with_masks

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
SCRIPTS = {"tag": "tagged_pets.sh", "tag_and_cast": "two_shortcuts.sh"}
NETS = {  # size of the images, words for the training
    "small_cnn": (48, "--model small_cnn --epochs 8"),
    "efficientnet_lite0": (
        64,
        "--model efficientnet_lite0 --set-model pretrained=true --epochs 4",
    ),
}
REPAIRS = {"fixed": "fixed", "fixed-first": "first alone", "fixed-second": "second alone"}


def run_script(given: argparse.Namespace, size: int, training: str) -> None:
    """Write the photographs and run the commands, which are those of the shell of a user."""
    photos = given.work / "photos"
    settings = ["--size", str(size), "--shortcut", given.shortcut, "--seed", str(given.seed)]
    if not photos.exists():
        script = EXAMPLES / "tagged_photos.py"
        run([sys.executable, str(script), str(given.data_dir), str(photos), *settings], given)
    script = EXAMPLES / SCRIPTS[given.shortcut]
    words = training.split()
    if given.shortcut != "tag":  # three repairs: measure no more than the table shows
        words += ["--metrics", "accuracy"]
    run(["sh", str(script), "photos", *words, "--seed", str(given.seed)], given)


def run(words: list[str], given: argparse.Namespace) -> None:
    """Run a command in the working folder, with the programs beside this Python."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    more = {"PATH": path, "BUDGET": given.budget, "TRIALS": str(given.trials)}
    source = os.environ.get("PYTHONPATH")
    if source:
        more["PYTHONPATH"] = str(Path(source).resolve())
    subprocess.run(words, cwd=given.work, env={**os.environ, **more}, check=True)


def read(path: Path) -> Any:
    """Read JSON."""
    return json.loads(path.read_text())


def accuracies(run: Path) -> dict[str, float]:
    """The average over groups and the worst group, on test data."""
    test = read(run / "results.json")["metrics"]["test"]
    if "group_accuracy/worst" not in test:
        opened = rr.run.load_run(run)
        test = rr.evaluate(opened.model, opened.data.test, ["group_accuracy"])
    return {name: test[f"group_accuracy/{name}"] for name in ("average", "worst")}


def overlap(given: argparse.Namespace, size: int, masks: Path) -> dict[str, float] | None:
    """The mean IoU of accepted masks with the true tags, in each part of the data."""
    (found,) = read_shortcuts([str(masks)])
    if found.kind == "colour":
        return None
    settings = {"size": size, "shortcut": given.shortcut, "seed": given.seed}
    truth = rr.datasets.pets_tag(given.data_dir, **settings)
    accepted = with_masks(rr.datasets.folder(given.work / "photos"), [found])
    values = {}
    for name in ("train", "val", "test"):
        one, two = getattr(truth, name), getattr(accepted, name)
        rows = torch.arange(len(one))
        true, mine = (part.take(rows).mask[:, :1] >= 0.5 for part in (one, two))
        shared, either = ((true & mine).flatten(1).sum(1), (true | mine).flatten(1).sum(1))
        values[name] = float((shared / either.clamp(min=1)).mean())
    return values


def train_oracle(given: argparse.Namespace, size: int, training: str, epochs: int) -> Path:
    """Train on random tags, for as many epochs as the original and its repair had."""
    folder = given.work / f"oracle-{epochs}"
    if not (folder / "results.json").exists():
        words = [word for word in training.split() if word != "--epochs"][:-1]
        data = f"size={size} shortcut={given.shortcut} oracle=true".split()
        run(
            [
                *("rightreasons", "train", "--data", "pets_tag", "--data-dir", str(given.data_dir)),
                *(word for one in data for word in ("--set-data", one)),
                *(*words, "--epochs", str(epochs), "--seed", str(given.seed)),
                *("--metrics", "accuracy,group_accuracy", "--resume", "--out", str(folder)),
            ],
            given,
        )
    return folder


def describe_repair(folder: Path) -> dict[str, Any]:
    """What a repair reached, its matrix and its warnings."""
    fixed = read(folder / "fixed.json")
    costs = {
        row["name"]: {when: (row[when] or {}).get("cost") for when in ("before", "after")}
        for row in fixed["shortcuts"]
    }
    after = fixed["runs"].get("after")
    return {
        "chosen": fixed["chosen"] and fixed["chosen"]["method"],
        "epochs": fixed["chosen"] and fixed["chosen"]["epochs"],
        "validation": fixed["chosen"] and fixed["chosen"]["values"],
        "test": None if after is None else accuracies(folder / after),
        "cost_of_exchange": costs,
        "warnings": fixed["warnings"],
        "seconds": round(fixed["budget"]["spent"]),
        "budget": fixed["budget"]["seconds"],
    }


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Run everything and compare with what is true."""
    size, training = NETS[given.net]
    given.work.mkdir(parents=True, exist_ok=True)
    if not (given.work / "report.html").exists():
        run_script(given, size, training)
    findings = read(given.work / "audit" / "audit.json")["findings"]
    folders = [name for name in ("masks", "first", "second") if (given.work / name).exists()]
    repairs = {
        words: describe_repair(given.work / name)
        for name, words in REPAIRS.items()
        if (given.work / name / "fixed.json").exists()
    }
    epochs = int(training.split()[-1]) + (repairs["fixed"]["epochs"] or 0)
    return {
        "net": given.net,
        "shortcut": given.shortcut,
        "size": size,
        "seed": given.seed,
        "erm": accuracies(given.work / "erm"),
        "findings": [
            {name: one[name] for name in ("name", "kind", "verdict", "strength", "interval")}
            for one in findings
        ],
        "iou": {name: overlap(given, size, given.work / name) for name in folders},
        "repairs": repairs,
        "oracle": {
            **accuracies(train_oracle(given, size, training, epochs)),
            "epochs": epochs,
        },
    }


def main() -> None:
    """Measure, and put the row beside those that are kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="a folder for this row alone")
    parser.add_argument("--net", choices=NETS, default="small_cnn")
    parser.add_argument("--shortcut", choices=SCRIPTS, default="tag")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", default="10m")
    parser.add_argument("--trials", type=int, default=2)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    given.work, given.data_dir = given.work.resolve(), given.data_dir.resolve()
    row = measure(given)
    print(json.dumps(row, indent=2))
    if given.out is not None:
        kept = read(given.out) if given.out.exists() else []
        key = ("net", "shortcut", "size", "seed")
        others = [one for one in kept if any(one[name] != row[name] for name in key)]
        rows = sorted([*others, row], key=lambda one: [str(one[name]) for name in key])
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
