"""Does the audit find planted shortcuts, and nothing on clean data?

    python benchmarks/audit_detection.py --data-dir DIR [--part development|test] [--seed 0]

Each cell trains a small net, proves by exchange whether it relies on the shortcut, audits it
without masks, and appends a row to benchmarks/results/audit/detection.jsonl. Cells that have a row
are not run again; `--nets FOLDER` keeps data and nets, so that a removed row costs its audit alone.
Thresholds of the verdict are settled on the development sets, see `settle`, and the test sets are
run once after that. `--settle` prints what the rule gives for the kept rows.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import rightreasons as rr
from rightreasons import models
from rightreasons.audit.findings import Thresholds
from rightreasons.core.rng import random_stream
from rightreasons.datasets import Dataset, InMemory, Splits, load
from rightreasons.datasets.dataset import Card, spread_over_classes
from rightreasons.datasets.sets.cifar import read_cifar10
from rightreasons.datasets.sets.decoy_derm import read_dermamnist
from rightreasons.datasets.sets.oxford_pets import SPECIES, find_pets
from rightreasons.datasets.sets.svhn import read_svhn
from rightreasons.datasets.wrappers import select
from rightreasons.metrics import SwapAccuracy
from rightreasons.run.config import Config
from rightreasons.types import Batch

ROWS = Path(__file__).parent / "results" / "audit" / "detection.jsonl"
SEEDS = (0, 1, 2)
NUM_TRAIN, NUM_TEST, EPOCHS = 600, 300, 8
NUM_TRAIN_MANY, MANY = 1000, 5  # so many images for so many classes
SIDE = 32
RELIES = 0.05  # least accuracy that the exchange costs
PETS = {"size": SIDE, "num_train": NUM_TRAIN, "num_validation": 0, "num_test": NUM_TEST}
PATCHES = ("patch", "attended patch")
CAST = 0.5  # how far the colours of two classes may lie apart

# Name: data set, settings, what must be found first (None: nothing), kind of the proof.
DEVELOPMENT = {
    "Pets, tag": ("pets_tag", PETS, PATCHES, "masks"),
    "Pets, colour cast": ("pets_tag", {**PETS, "shortcut": "cast"}, ("colour",), "groups"),
    "Pets, JPEG quality": ("pets_tag", {**PETS, "shortcut": "jpeg"}, ("detail",), "groups"),
    "biased MNIST": ("biased_mnist", {"validation": 100}, PATCHES, "masks"),
    "decoy digits": ("decoy_digits", {}, PATCHES, "masks"),
    "decoy MNIST": ("decoy_mnist", {}, PATCHES, "masks"),
    "SVHN, metadata column": ("svhn", {"columns": True}, ("metadata",), None),
    "MNIST, clean": ("mnist", {}, None, None),
    "Pets, clean": ("pets", {}, None, None),
}
# Fashion-MNIST is not at hand; photographs of skin stand in for it.
TEST = {
    "SVHN, corner patch": ("corner", {}, PATCHES, "masks"),
    "skin, swatch": ("decoy_derm", {}, PATCHES, "masks"),
    "Pets, tag on dogs alone": ("pets_tag", {**PETS, "carriers": "dogs"}, PATCHES, "masks"),
    "CIFAR-10, colour cast": ("cifar_cast", {}, ("colour",), "groups"),
    "CIFAR-10, metadata column": ("cifar10", {"columns": True}, ("metadata",), None),
    "SVHN, clean": ("svhn", {}, None, None),
    "CIFAR-10, clean": ("cifar10", {}, None, None),
    "textures, clean": ("dtd", {}, None, None),
    "skin, clean": ("skin", {}, None, None),
    "Waterbirds": ("waterbirds", {"size": SIDE, "in_memory": False}, None, "natural"),
    "CelebA hair": ("celeba_hair", {"size": SIDE, "in_memory": False}, None, "natural"),
}
PARTS = {"development": DEVELOPMENT, "test": TEST}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir")
    parser.add_argument("--part", choices=sorted(PARTS))
    parser.add_argument("--seed", type=int, choices=SEEDS)
    parser.add_argument("--nets", type=Path, help="Folder that keeps data and trained nets.")
    parser.add_argument("--settle", action="store_true", help="Print what the rule gives.")
    options = parser.parse_args()
    if options.settle:
        sys.stdout.write(json.dumps(settle(read_rows()), indent=1) + "\n")
        return
    ROWS.parent.mkdir(parents=True, exist_ok=True)
    for seed in SEEDS if options.seed is None else (options.seed,):
        for part in PARTS if options.part is None else (options.part,):
            for name, cell in PARTS[part].items():
                if not any((row["set"], row["seed"]) == (name, seed) for row in read_rows()):
                    row = {"set": name, "part": part, "seed": seed}
                    row |= run_cell(*cell, options.data_dir, seed, options.nets)
                    with ROWS.open("a") as file:
                        file.write(json.dumps(row) + "\n")


def read_rows() -> list[dict]:
    """The kept rows."""
    return [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []


def settle(rows: list[dict]) -> dict[str, dict[str, float]]:
    """Settle the thresholds on the development rows.

    For the planted effect and for the strength, take the largest value among all findings of clean
    runs, and the smallest value of the planted kind among runs whose net relies on it and that the
    other number does not catch. A threshold that lies between them stays as it is; one that does
    not becomes their middle, rounded to 0.05.
    """
    rows = [row for row in rows if row["part"] == "development"]
    limits = asdict(Thresholds())
    other = {"effect": "strength", "strength": "effect"}
    settled = {}
    for name in other:
        clean = max(_best(row, name) for row in rows if row["expected"] is None)
        planted = [row for row in rows if row["expected"] and row["relies"]]
        alone = [
            _best(row, name) for row in planted if _best(row, other[name]) < limits[other[name]]
        ]
        lowest = min(alone, default=1.0)
        stays = clean < limits[name] <= lowest
        settled[name] = {
            "largest clean": clean,
            "planted runs": len(planted),
            "planted runs that the other number does not catch": len(alone),
            "smallest of these": lowest,
            "threshold": limits[name] if stays else round(10 * (clean + lowest)) / 20,
        }
    return settled


def _best(row: dict, name: str) -> float:
    """The largest number of what counts: the expected kinds, or all kinds of a clean run."""
    kinds = row["expected"]
    values = [_number(one, name) for one in row["found"] if not kinds or one["kind"] in kinds]
    return max(values, default=-1.0)


def _number(finding: dict, name: str) -> float:
    value = finding["effect"][1] if name == "effect" and finding["effect"] else -1.0
    value = finding["tells_label"] if name == "strength" else value
    return -1.0 if math.isnan(value) else value


def run_cell(data, settings, expected, proof, data_dir, seed, nets):
    """Train, prove and audit; gives the row."""
    started, cpu = time.monotonic(), time.process_time()
    settings = dict(settings)
    with_columns = settings.pop("columns", False)
    kept = nets and nets / f"{data}-{'-'.join(map(str, settings.values()))}-{seed}.pt"
    if kept and kept.exists():
        splits, model = torch.load(kept, weights_only=False)
    else:
        splits = make_data(data, settings, data_dir, seed)
        model = train(splits, seed)
        if kept:
            kept.parent.mkdir(parents=True, exist_ok=True)
            torch.save((splits, model), kept)
    reliance, relies = prove(model, splits, proof)
    right = rr.evaluate(model, _bare(splits.test), ["accuracy"])["accuracy"]
    audited = rr.audit(
        model,
        _bare(splits.train),
        columns=_columns(splits.train, seed) if with_columns else None,
        seed=seed,
        progress=False,
    )
    found = [
        {
            "kind": one.kind,
            "name": one.name,
            "verdict": one.verdict,
            "tells_label": one.tells_label,
            "p_value": one.p_value,
            "area": one.area,
            "effect": None if one.decisive is None else [one.decisive.value, one.decisive.low],
            "details": one.details,
        }
        for one in (*audited.findings, *audited.others)
    ]
    first = audited.findings[0].kind if audited.findings else None
    return {
        "expected": expected,
        "reliance": reliance,
        "relies": relies,
        "test_accuracy": right,
        "first": first,
        "num_findings": len(audited.findings),
        "thresholds": audited.facts["thresholds"],
        "found": found,
        "audit_seconds": audited.facts["seconds"],
        "seconds": round(time.monotonic() - started, 1),
        "processor_seconds": round(time.process_time() - cpu, 1),
    }


def make_data(name, settings, data_dir, seed) -> Splits:
    """The data of a cell, of 600 or 1,000 training images, in memory."""
    if name in ("svhn", "corner"):
        splits = _digits_or_photographs(read_svhn(data_dir), seed)
        return splits if name == "svhn" else _with_corners(splits, seed)
    if name in ("cifar10", "cifar_cast"):
        splits = _digits_or_photographs(read_cifar10(data_dir), seed)
        return splits if name == "cifar10" else _with_casts(splits, seed)
    if name == "mnist":
        return _without_patches(_cut(load("decoy_mnist", data_dir=data_dir, seed=seed), seed))
    if name == "pets":
        return _pets(data_dir, seed)
    if name == "dtd":
        return _textures(data_dir, seed)
    if name == "skin":
        return _skin(data_dir, seed)
    place = {} if name == "decoy_digits" else {"data_dir": data_dir}
    return _cut(load(name, seed=seed, **place, **settings), seed)


def _digits_or_photographs(parts, seed: int) -> Splits:
    """Some images of ten classes, the others are not decoded."""
    made = []
    for part, most in zip(parts, (NUM_TRAIN_MANY, NUM_TEST), strict=True):
        rows = np.sort(random_stream(seed, "audit", "cut").permutation(len(part.y))[:most])
        images = part.images(rows).transpose(0, 2, 3, 1)
        made.append(_in_memory(images, part.y[rows], tuple(map(str, range(10)))))
    return Splits(made[0], None, made[1])


def _cut(splits: Splits, seed: int) -> Splits:
    """Some training and test images, at random."""
    num = NUM_TRAIN if len(splits.card.classes) < MANY else NUM_TRAIN_MANY

    def some(part: Dataset, most: int) -> Dataset:
        stream = random_stream(seed, "audit", "cut")
        rows = torch.from_numpy(stream.permutation(len(part))[:most]).sort().values
        batch = part.take(rows)
        return InMemory(replace(batch, index=None), part.card)

    return Splits(some(splits.train, num), None, some(splits.test, NUM_TEST))


def _bare(data: Dataset) -> Dataset:
    """Images and labels alone: the audit has no masks."""
    batch = data.take(torch.arange(len(data)))
    return InMemory(Batch(x=batch.x, y=batch.y), replace(data.card, groups=()))


def _columns(data: Dataset, seed: int) -> dict[str, list]:
    """The site of nine images in ten tells the label; the day tells nothing."""
    stream = random_stream(seed, "audit", "metadata")
    y = data.labels.tolist()
    wrong = stream.random(len(y)) < 0.1
    sites = [
        f"site {stream.integers(10) if odd else label}" for label, odd in zip(y, wrong, strict=True)
    ]
    return {"site": sites, "day": stream.integers(365, size=len(y)).tolist()}


def _with_casts(splits: Splits, seed: int) -> Splits:
    """Photographs whose colours tell their class in training, and half of the time at test."""
    gains = 1 - CAST * _palette()
    parts = []
    for name, part in (("train", splits.train), ("test", splits.test)):
        batch = part.take(torch.arange(len(part)))
        stream = random_stream(seed, "audit", "cast", name)
        drawn = torch.from_numpy(stream.integers(10, size=len(batch)))
        agrees = torch.from_numpy(stream.random(len(batch)) < (1 if name == "train" else 0.5))
        colours = gains[torch.where(agrees, batch.y, drawn)]
        card = replace(part.card, groups=("other colours", "colours of the class"))
        x = batch.x * colours[:, :, None, None]
        parts.append(InMemory(Batch(x=x, y=batch.y, group=agrees.long()), card))
    return Splits(parts[0], None, parts[1])


def _palette() -> torch.Tensor:
    """A colour for each of ten classes, ``(10, 3)``."""
    return torch.tensor(
        [[(k % 2), (k // 2) % 3 / 2, (k // 6) + 0.2 * (k % 3)] for k in range(10)]
    ).clamp(0, 1)


def _with_corners(splits: Splits, seed: int) -> Splits:
    """House numbers with a square in the upper left corner, whose colour tells the digit."""
    palette = _palette()
    parts = []
    for name, part in (("train", splits.train), ("test", splits.test)):
        batch = part.take(torch.arange(min(len(part), 1000)))
        stream = random_stream(seed, "audit", name)
        drawn = torch.from_numpy(stream.integers(10, size=len(batch)))
        colours = palette[batch.y if name == "train" else drawn]
        x, mask = batch.x.clone(), torch.zeros(len(batch), 1, *batch.x.shape[2:])
        x[:, :, 1:6, 1:6] = colours[:, :, None, None]
        mask[:, :, 1:6, 1:6] = 1
        parts.append(InMemory(Batch(x=x, y=batch.y, mask=mask), splits.card))
    return Splits(parts[0], None, parts[1])


def _without_patches(splits: Splits) -> Splits:
    """Decoy MNIST with its patches painted black, as they were."""
    parts = []
    for part in (splits.train, splits.test):
        batch = part.take(torch.arange(min(len(part), 5000)))
        x = batch.x * (1 - batch.mask)
        parts.append(InMemory(Batch(x=x, y=batch.y), splits.card))
    return Splits(parts[0], None, parts[1])


def _pets(data_dir, seed) -> Splits:
    """Cats and dogs as they are."""
    pets = find_pets(data_dir)
    stream = random_stream(seed, "audit", "pets")
    parts = []
    for is_train, most in ((True, NUM_TRAIN), (False, NUM_TEST)):
        rows = [
            stream.permutation(np.flatnonzero((pets.is_train == is_train) & (pets.species == kind)))
            for kind in (0, 1)
        ]
        chosen = np.sort(np.concatenate([one[: most // 2] for one in rows]))
        images, _ = pets.read(chosen, SIDE)
        parts.append(_in_memory(images, pets.species[chosen], SPECIES))
    return Splits(parts[0], None, parts[1])


def _textures(data_dir, seed) -> Splits:
    """Textures of ten kinds."""
    arrays = dict(np.load(Path(data_dir) / "dtd10_128.npz"))
    images = []
    for first, last in zip(arrays["offsets"][:-1], arrays["offsets"][1:], strict=True):
        picture = Image.open(io.BytesIO(arrays["jpeg"][first:last].tobytes())).convert("RGB")
        images.append(np.asarray(picture.resize((SIDE, SIDE), Image.Resampling.BOX)))
    order = random_stream(seed, "audit", "dtd").permutation(len(images))
    x, y = np.stack(images), arrays["label"].astype(np.int64)
    names = tuple(map(str, range(int(y.max()) + 1)))
    parts = [
        _in_memory(x[rows], y[rows], names)
        for rows in (order[:NUM_TRAIN_MANY], order[NUM_TRAIN_MANY:])
    ]
    return Splits(parts[0], None, parts[1])


def _skin(data_dir, seed) -> Splits:
    """Moles and melanomas, as many of each, as they are."""
    arrays = read_dermamnist(data_dir)
    parts = []
    for part, most in ((arrays.train, NUM_TRAIN), (arrays.test, NUM_TEST)):
        stream = random_stream(seed, "audit", "skin")
        y = np.asarray(part.y).reshape(-1)
        kinds = [stream.permutation(np.flatnonzero(y == kind)) for kind in (5, 4)]
        num = min(most // 2, *(len(one) for one in kinds))
        rows = np.sort(np.concatenate([one[:num] for one in kinds]))
        parts.append(
            _in_memory(part.x[rows], (y[rows] == 4).astype(np.int64), ("mole", "melanoma"))
        )
    return Splits(parts[0], None, parts[1])


def _in_memory(images, labels, classes) -> Dataset:
    """Images ``(N, H, W, 3)`` of 8 bits as a data set."""
    x = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float() / 255
    card = Card(name="clean", classes=classes, shape=tuple(x.shape[1:]))
    return InMemory(Batch(x=x, y=torch.from_numpy(np.asarray(labels)).long()), card)


def train(splits: Splits, seed: int):
    """Train the usual net for the data's shape, by cross-entropy."""
    name, settings = models.default_model(splits.card.shape)
    if splits.card.name in (
        "decoy_digits",
        "decoy_mnist",
    ):  # whose patches a convolutional net hardly reads
        name, settings = "mlp", {}
    config = Config(data="cell", model=name, model_settings=settings, seed=seed)
    model = config.build_model(splits)
    rr.fit(model, rr.recipes.erm(), _bare(splits.train), epochs=EPOCHS, seed=seed, progress=False)
    return model.eval()


def prove(model, splits: Splits, proof) -> tuple[float | None, bool]:
    """What exchanging the shortcut costs: by masks, or the worst group below the average."""
    if proof == "masks":
        some = select(splits.train, spread_over_classes(splits.train.labels, 200))
        cost = rr.evaluate(model, some, [SwapAccuracy(num_draws=2)]).get("swap_accuracy/cost", 0.0)
        return cost, cost >= RELIES
    if proof in ("groups", "natural"):
        values = rr.evaluate(model, splits.test, ["group_accuracy"])
        gap = values["group_accuracy/average"] - values["group_accuracy/worst"]
        return gap, gap >= RELIES
    return None, False


if __name__ == "__main__":
    main()
