"""Does the audit find planted shortcuts, and nothing on clean data?

    python benchmarks/audit_detection.py --data-dir DIR [--part development|test] [--seed 0]

Each cell trains a small net, proves by exchange whether it relies on the shortcut, audits it, and
appends a row to benchmarks/results/audit/detection.jsonl. Cells that have a row are not run again.
Thresholds of the verdict are those of an earlier prototype, and are to be settled on the
development sets. Then the test sets are run once.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch

import rightreasons as rr
from rightreasons import models
from rightreasons.audit.findings import Thresholds
from rightreasons.core.rng import random_stream
from rightreasons.datasets import Dataset, InMemory, Splits, load
from rightreasons.datasets.dataset import spread_over_classes
from rightreasons.datasets.wrappers import select
from rightreasons.metrics import SwapAccuracy
from rightreasons.run.config import Config
from rightreasons.types import Batch

ROWS = Path(__file__).parent / "results" / "audit" / "detection.jsonl"
SEEDS = (0, 1, 2)
NUM_TRAIN, MOST_SAMPLES, EPOCHS = 1000, 1000, 10
RELIES = 0.05  # least accuracy that the exchange costs
PETS = {"size": 48, "num_train": NUM_TRAIN, "num_validation": 100, "num_test": 400}

# Name: data set, settings, what must be found first (None: nothing), kind of the proof.
DEVELOPMENT = {
    "tag": ("pets_tag", PETS, ("patch", "attended patch"), "masks"),
    "colour cast": ("pets_tag", {**PETS, "shortcut": "cast"}, ("colour",), "groups"),
    "biased MNIST": ("biased_mnist", {"validation": 100}, ("patch", "attended patch"), "masks"),
    "decoy digits": ("decoy_digits", {}, ("patch", "attended patch"), "masks"),
    "decoy MNIST": ("decoy_mnist", {}, ("patch", "attended patch"), "masks"),
    "JPEG quality": ("pets_tag", {**PETS, "shortcut": "jpeg"}, ("detail",), "groups"),
    "MNIST, clean": ("decoy_mnist", {"colours": "clean"}, None, None),
    "Pets, clean": ("pets_tag", {**PETS, "shortcut": "jpeg", "oracle": True}, None, None),
}
TEST = {
    "corner patch": ("corner", {}, ("patch", "attended patch"), "masks"),
    "metadata column": ("metadata", {}, ("metadata",), None),
    "CIFAR-10, clean": ("cifar10", {"validation": 100}, None, None),
    "SVHN, clean": ("svhn", {"validation": 100}, None, None),
    "textures, clean": ("dtd", {}, None, None),
    "Waterbirds": ("waterbirds", {"size": 48}, None, "natural"),
    "CelebA hair": ("celeba_hair", {"size": 48}, None, "natural"),
}
PARTS = {"development": DEVELOPMENT, "test": TEST}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--part", choices=sorted(PARTS))
    parser.add_argument("--seed", type=int, choices=SEEDS)
    options = parser.parse_args()
    ROWS.parent.mkdir(parents=True, exist_ok=True)
    for seed in SEEDS if options.seed is None else (options.seed,):
        for part in PARTS if options.part is None else (options.part,):
            for name in PARTS[part]:
                if (name, seed) not in _done():
                    row = {"set": name, "part": part, "seed": seed}
                    row |= run_cell(*PARTS[part][name], options.data_dir, seed)
                    with ROWS.open("a") as file:
                        file.write(json.dumps(row) + "\n")


def _done() -> set[tuple[str, int]]:
    if not ROWS.exists():
        return set()
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()]
    return {(row["set"], row["seed"]) for row in rows}


def run_cell(data, settings, expected, proof, data_dir, seed):
    """Train, prove and audit; gives the row."""
    started = time.monotonic()
    splits, columns = make_data(data, settings, data_dir, seed)
    model = train(splits, seed)
    reliance, relies = prove(model, splits, proof)
    audited = rr.audit(
        model,
        splits.train,
        columns=columns,
        max_samples=MOST_SAMPLES,
        thresholds=Thresholds(),
        seed=seed,
        progress=False,
    )
    found = [
        {
            "kind": one.kind,
            "name": one.name,
            "verdict": one.verdict,
            "tells_label": one.tells_label,
            "effect": None if one.decisive is None else [one.decisive.value, one.decisive.low],
        }
        for one in (*audited.findings, *audited.others)
    ]
    first = audited.findings[0].kind if audited.findings else None
    return {
        "expected": expected,
        "reliance": reliance,
        "relies": relies,
        "first": first,
        "num_findings": len(audited.findings),
        "found": found,
        "audit_seconds": audited.facts["seconds"],
        "seconds": round(time.monotonic() - started, 1),
    }


def make_data(name, settings, data_dir, seed) -> tuple[Splits, dict | None]:
    """The data of a cell, of at most NUM_TRAIN training images."""
    columns = None
    if name in ("corner", "metadata"):
        splits = load("svhn", data_dir=data_dir, seed=seed, validation=100, subset=NUM_TRAIN)
        if name == "corner":
            return _with_corners(splits, seed), None
        stream = random_stream(seed, "audit", "metadata")
        y = splits.train.labels.tolist()
        wrong = stream.random(len(y)) < 0.1
        sites = [
            f"site {stream.integers(10) if odd else label}"
            for label, odd in zip(y, wrong, strict=True)
        ]
        columns = {"site": sites, "day": stream.integers(365, size=len(y)).tolist()}
        return splits, columns
    if name == "dtd":
        return _textures(data_dir, seed), None
    if settings.get("colours") == "clean":
        return _cut(_without_patches(load("decoy_mnist", data_dir=data_dir, seed=seed)), seed), None
    return _cut(load(name, data_dir=data_dir, seed=seed, **settings), seed), None


def _cut(splits: Splits, seed: int) -> Splits:
    """At most NUM_TRAIN training images and 1,000 test images, at random."""

    def some(part: Dataset, most: int) -> Dataset:
        stream = random_stream(seed, "audit", "cut")
        rows = torch.from_numpy(stream.permutation(len(part))[:most]).sort().values
        return select(part, rows)

    return Splits(some(splits.train, NUM_TRAIN), None, some(splits.test, 1000))


def _with_corners(splits: Splits, seed: int) -> Splits:
    """House numbers with a square in the upper left corner, whose colour tells the digit."""
    palette = torch.tensor(
        [[(k % 2), (k // 2) % 3 / 2, (k // 6) + 0.2 * (k % 3)] for k in range(10)]
    ).clamp(0, 1)
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


def _textures(data_dir, seed) -> Splits:
    import io

    import numpy as np
    from PIL import Image

    arrays = dict(np.load(Path(data_dir) / "dtd10_128.npz"))
    images = []
    for first, last in zip(arrays["offsets"][:-1], arrays["offsets"][1:], strict=True):
        picture = Image.open(io.BytesIO(arrays["jpeg"][first:last].tobytes())).convert("RGB")
        images.append(np.asarray(picture.resize((48, 48), Image.Resampling.BOX)))
    x = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float() / 255
    y = torch.from_numpy(arrays["label"]).long()
    order = torch.from_numpy(random_stream(seed, "audit", "dtd").permutation(len(y)))
    parts = [InMemory(Batch(x=x[rows], y=y[rows])) for rows in (order[:1000], order[1000:])]
    return Splits(parts[0], None, parts[1])


def train(splits: Splits, seed: int):
    """Train the usual net for the data's shape, by cross-entropy."""
    name, settings = models.default_model(splits.card.shape)
    if splits.card.name.startswith("decoy"):  # whose patches a convolutional net hardly reads
        name, settings = "mlp", {}
    config = Config(data="cell", model=name, model_settings=settings, seed=seed)
    model = config.build_model(splits)
    rr.fit(model, rr.recipes.erm(), splits.train, epochs=EPOCHS, seed=seed, progress=False)
    return model.eval()


def prove(model, splits: Splits, proof) -> tuple[float | None, bool]:
    """What exchanging the shortcut costs: by masks, or the worst group below the average."""
    if proof == "masks":
        some = select(splits.train, spread_over_classes(splits.train.labels, 500))
        cost = rr.evaluate(model, some, [SwapAccuracy(num_draws=2)]).get("swap_accuracy/cost", 0.0)
        return cost, cost >= RELIES
    if proof in ("groups", "natural"):
        values = rr.evaluate(model, splits.test, ["group_accuracy"])
        gap = values["group_accuracy/average"] - values["group_accuracy/worst"]
        return gap, gap >= RELIES
    return None, False


if __name__ == "__main__":
    main()
