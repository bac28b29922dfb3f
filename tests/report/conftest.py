"""Run folders made by hand, so that the report is tested without training."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import yaml

from rightreasons.report.record import read_record
from rightreasons.report.section import group_records
from rightreasons.run.config import Config

GROUPS = ("healthy", "ill")


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
