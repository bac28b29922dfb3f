"""Run folders made by hand, so that the report is tested without training."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import yaml
from PIL import Image

from rightreasons.report.record import read_record
from rightreasons.report.section import group_records
from rightreasons.run.config import Config

GROUPS = ("healthy", "ill")
MASKS = {"samples": 0.95, "area": 0.04}
LOST = {"before": 0.9, "accuracy": 0.5, "cost": 0.4, "low": 0.35, "high": 0.45}
GONE = LOST | {"cost": 0.01, "low": -0.01, "high": 0.02}
RISKS = {f"risk_coverage/{kind}/{share}": share / 500 for kind in ("error",) for share in (50, 100)}


def metrics(worst, *, average=None, accuracy=None, half=0.03, mass=0.05, swap=None, area=0.1):
    """What `evaluate` gives; intervals are ± half."""
    average = worst + 0.05 if average is None else average
    values = {
        "accuracy": average if accuracy is None else accuracy,
        "group_accuracy/average": average,
        "group_accuracy/worst": worst,
        "group_accuracy/healthy": 2 * average - worst,
        "group_accuracy/ill": worst,
    }
    ends = {
        f"{name}/{end}": value + sign * half
        for name, value in values.items()
        for end, sign in (("low", -1), ("high", 1))
    }
    counts = {"accuracy/n": 200.0, "group_accuracy/healthy/n": 120.0, "group_accuracy/ill/n": 80.0}
    values |= {**ends, **counts, "calibration_error": 0.04, "group_accuracy/weighted": average}
    if mass is not None:
        values |= {"input_gradient_mass": mass, "input_gradient_mass/area": area}
        values |= {"input_gradient_mass/n": 200.0}
        swapped = values["accuracy"] if swap is None else swap
        values |= {"swap_accuracy": swapped, "swap_accuracy/worst": swapped - 0.1}
        values |= {"swap_accuracy/average": swapped, "swap_accuracy/class/benign": swapped}
    return values


def examples(shape=(1, 10, 10), *, num=3, seed=0, mask=True):
    """What a run keeps of its test samples."""
    stream = np.random.default_rng(seed)
    x = stream.random((num, *shape), dtype=np.float32)
    arrays = {
        "x": x,
        "y": np.arange(num) % 2,
        "index": np.arange(num) * 7,
        "prediction": np.zeros(num, dtype=np.int64),
        "probability": np.full(num, 0.875, dtype=np.float32),
        "attribution": stream.normal(size=x.shape).astype(np.float32),
    }
    if mask:
        arrays["mask"] = np.zeros((num, 1, *shape[1:]), dtype=np.float32)
        arrays["mask"][..., :3, :3] = 1
    return arrays


def history(parts=("cross_entropy",), *, epochs=4):
    """What a run logs."""
    return [
        {
            "epoch": epoch + 1,
            "parts": {name: 2.0 / 4**epoch for name in parts},
            "accuracy": 1 - 0.5 / (epoch + 1),
            "validation": {"accuracy": 1 - 0.6 / (epoch + 1)},
        }
        for epoch in range(epochs)
    ]


def results(recipe, *, seed, test, validation=None, shape=(1, 10, 10), **changes):
    """What `train_run` writes."""
    terms = {"cross_entropy": 1.0} | ({} if recipe == "erm" else {recipe: 30.0})
    told = {
        "format": 1,
        "data": "lesions",
        "data_settings": {},
        "data_sha256": f"{seed:064x}",
        "card": {
            "name": "lesions",
            "description": "Photographs of lesions.",
            "source": "A hospital",
            "licence": "CC BY 4.0",
            "shortcut": "A ruler beside malignant lesions.",
            "classes": ["benign", "malignant"],
            "groups": list(GROUPS),
            "shape": list(shape),
            "valid_range": [0.0, 1.0],
            "train_group_counts": [300, 50 + seed],
        },
        "recipe": recipe,
        "settings": {},
        "terms": terms,
        "model": "mlp",
        "model_settings": {},
        "num_parameters": 12345,
        "training": {"epochs": 4, "batch_size": 50, "lr": 0.002, "optimizer": "adam", "clip": None},
        "selection": {"used": "none", "epoch": 4},
        "diagnosis": {"learned": True, "message": "The model learned.", "suspects": []},
        "seed": seed,
        "seconds": 1.25,
        "metrics": {"test": test, **({} if validation is None else {"validation": validation})},
        "versions": {"rightreasons": "0.1.0", "torch": "2.13.0"},
    }
    return told | changes


@pytest.fixture
def make_metrics():
    """See `metrics`."""
    return metrics


@pytest.fixture
def make_examples():
    """See `examples`."""
    return examples


@pytest.fixture
def make_run(tmp_path):
    """Write a run's folder and give its path; None as ``log`` or ``kept`` leaves it out."""

    def make(recipe="erm", worst=0.5, *, seed=0, name=None, log=(), kept=(), test=None, **changes):
        folder = tmp_path / (name or f"{recipe}-{seed}-{len(list(tmp_path.iterdir()))}")
        folder.mkdir(parents=True)
        test = metrics(worst) if test is None else test
        told = results(recipe, seed=seed, test=test, **changes)
        config = Config(
            data=told["data"], recipe=recipe, seed=seed, select=told["selection"]["used"]
        )
        (folder / "config.yaml").write_text(yaml.safe_dump(asdict(config)))
        (folder / "results.json").write_text(json.dumps(told))
        if log is not None:
            rows = log or history(tuple(told["terms"]))
            (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        if kept is not None:
            shape = tuple(told["card"]["shape"])
            np.savez(folder / "examples.npz", **(dict(kept) or examples(shape)))
        return folder

    return make


@pytest.fixture
def make_section(make_run):
    """The section of runs given as ``(recipe, worst, changes)``."""

    def make(*runs):
        records = [
            read_record(make_run(recipe, worst, **changes)) for recipe, worst, changes in runs
        ]
        (section,) = group_records(records)
        return section

    return make


@pytest.fixture
def repair(make_run, make_metrics, tmp_path):
    """The folder of a repair: two runs, two trials, two shortcuts of which one grew."""
    folder = tmp_path / "fixed"
    (folder / "trials").mkdir(parents=True)
    make_run("as it is", 0.2, name="fixed/before", test=make_metrics(0.2) | RISKS)
    make_run("counterexamples", 0.8, name="fixed/trials/000", test=make_metrics(0.8) | RISKS)
    row = {
        "number": 0,
        "method": "counterexamples",
        "settings": {"source": "auto"},
        "lr": 1e-3,
        "epochs": 3,
        "state": "finished",
        "reason": "",
        "values": {"score": 0.8, "accuracy": 0.85},
        "keeps": True,
        "seconds": 61.0,
    }
    stopped = row | {"number": 1, "method": "r3", "state": "stopped", "values": {}}
    stopped |= {"reason": "the budget was used up", "keeps": False}
    fixed = {
        "sentence": "Trial 0, counterexamples, takes the accuracy from 20.0 % to 80.0 %.",
        "selected_what": "accuracy on validation samples with shortcuts of another class",
        "selected_why": "there are masks",
        "kept_what": "the validation accuracy",
        "num_trials": 2,
        "original": {"accuracy": 0.3, "swap_accuracy": 0.2},
        "chosen": row,
        "budget": {"seconds": 120, "spent": 90.0},
        "warnings": ["Removing tag feeds stripe <b>."],
        "runs": {"before": "before", "after": "trials/000"},
        "shortcuts": [
            {"name": "tag", "fixed": True, "before": LOST, "after": GONE, "masks": MASKS},
            {"name": "stripe", "fixed": False, "before": GONE, "after": None},
        ],
    }
    (folder / "fixed.json").write_text(json.dumps(fixed))
    (folder / "tried.json").write_text(json.dumps({"chosen": 0, "trials": [row, stopped]}))
    (folder / "masks").mkdir()
    quality = {"iou": 0.8, "calibration_error": 0.01, "num_masks": 30}
    told = {"num_annotations": 20, "num_predicted": 180, "held_out": quality}
    (folder / "masks" / "quality.json").write_text(json.dumps(told))
    return folder


@pytest.fixture
def audit(tmp_path):
    """The folder of an audit, with pictures as strings and by what they show."""
    folder = tmp_path / "audit"
    (folder / "pictures").mkdir(parents=True)
    for name in ("one.png", "pictures/before.png", "pictures/after.png"):
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(folder / name)
    planted = {"shows": "planting", "before": "before.png", "after": "after.png"}
    found = {
        "name": "a tag <i>",
        "kind": "patch",
        "verdict": "the model uses it",
        "strength": 0.9,
        "interval": [0.8, 1.0],
        "prevalence": 0.5,
        "classes": ["cat"],
        "advice": "Accept it.",
        "pictures": ["one.png", planted | {"predicted": ["cat", "dog"]}, "../fixed/secret.png", 3],
    }
    content = {"format": 1, "findings": [found, {"name": "bare"}, "no finding"]}
    (folder / "audit.json").write_text(json.dumps(content))
    return folder
