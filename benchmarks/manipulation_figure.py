"""Can an attacker move the explanation to a frame, and does alignment stop it?

Attacks test images of finished runs (PGD within epsilon, towards a frame, prediction unchanged) and
draws a line for each image: the image, then for each run its input gradient before and after. Runs
of the suite `alignment-table1` lie in `OUT/runs`, by the address of their row.

    python benchmarks/manipulation_figure.py --run "CE only=OUT/runs/ADDRESS" \
        --run "l2 + cosine=OUT/runs/ADDRESS" --data-dir DIR --epsilon 2 4 \
        --picture docs/images/manipulation.png --out benchmarks/results/manipulation.json
"""

import argparse
import base64
import io
import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from rich.progress import track
from torch import Tensor
from torch.nn.functional import cosine_similarity

import rightreasons as rr
from rightreasons.attacks import AttributionManipulation, frame_map
from rightreasons.explainers import InputGradient, postprocessed
from rightreasons.report.picture import overlay, portrait
from rightreasons.run.run import Run, load_run

TOP = 0.1
GAP = 6


@dataclass(frozen=True)
class Attacked:
    """The maps of one run before and after the attack, and what the attack came to."""

    before: Tensor
    after: Tensor
    figures: dict[str, float]


def attacked(run: Run, data: rr.datasets.Splits, batch: rr.Batch, epsilon: float) -> Attacked:
    """Attack the batch through the input gradient of a run's model."""
    model, explainer = run.load_model(data), InputGradient()
    frame = frame_map(*batch.x.shape[2:]).to(batch.x)
    attack = AttributionManipulation(
        explainer=explainer,
        epsilon=epsilon,
        valid_range=data.card.valid_range,
        softplus_beta=None,
        max_rows=64,
    )
    found = attack(model, batch.x, batch.y, target=frame, index=batch.index)
    before, after = explainer(model, batch.x, batch.y), explainer(model, found.x, batch.y)
    shares = [
        (frame * postprocessed(maps, normalise="l1")).flatten(1).sum(dim=1)
        for maps in (before, after)
    ]
    tops = [
        (frame * _top(postprocessed(maps))).flatten(1).sum(dim=1) / round(frame.numel() * TOP)
        for maps in (before, after)
    ]
    kept = cosine_similarity(postprocessed(before).flatten(1), postprocessed(after).flatten(1))
    figures = {
        "share of the map on the frame before": float(shares[0].mean()),
        "share of the map on the frame after": float(shares[1].mean()),
        "share of the top tenth on the frame before": float(tops[0].mean()),
        "share of the top tenth on the frame after": float(tops[1].mean()),
        "cosine of the maps": float(kept.mean()),
        "share of samples for which nothing was found": float(found.flipped.float().mean()),
        "accuracy": run.results["metrics"]["test"]["accuracy"],
    }
    return Attacked(before.detach(), after.detach(), {k: round(v, 4) for k, v in figures.items()})


def _top(maps: Tensor) -> Tensor:
    """1 at the pixels with the largest values of each map, a tenth of them."""
    flat = maps.flatten(1)
    highest = flat.topk(round(flat.shape[1] * TOP), dim=1).indices
    return torch.zeros_like(flat).scatter_(1, highest, 1.0).reshape(maps.shape)


def pixels(address: str) -> NDArray[np.uint8]:
    content = base64.b64decode(address.partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


def sheet(batch: rr.Batch, runs: list[Attacked], valid_range: tuple[float, float]) -> Image.Image:
    """One line an image: the image, then each run's map before and after."""
    lines = []
    for number in range(len(batch)):
        x = batch.x[number].numpy()
        cells = [pixels(portrait(x, None, valid_range))]
        for run in runs:
            for maps in (run.before, run.after):
                cells.append(pixels(overlay(x, maps[number].numpy(), None, valid_range)))
        gap = np.full((cells[0].shape[0], GAP, 3), 255, np.uint8)
        lines.append(np.concatenate([part for cell in cells for part in (cell, gap)], axis=1))
    space = np.full((GAP, lines[0].shape[1], 3), 255, np.uint8)
    return Image.fromarray(np.concatenate([part for line in lines for part in (line, space)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", action="append", required=True, help="NAME=FOLDER; repeatable")
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument(
        "--epsilon",
        type=float,
        nargs="+",
        default=[4.0],
        help="in 255ths; the picture is of the first",
    )
    parser.add_argument("--shown", type=int, default=5)
    parser.add_argument("--picture", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    runs = {name: load_run(folder) for name, folder in (r.split("=", 1) for r in options.run)}
    first = next(iter(runs.values()))
    data = replace(first.config, data_dir=options.data_dir).load_data()
    places = torch.linspace(0, len(data.test) - 1, options.samples).long()
    batch = data.test.take(places)
    found = {
        epsilon: {
            name: attacked(run, data, batch, epsilon / 255)
            for name, run in track(runs.items(), f"epsilon {epsilon:g}/255")
        }
        for epsilon in options.epsilon
    }
    pictured = found[options.epsilon[0]].values()
    shown = torch.linspace(0, options.samples - 1, options.shown).long()
    some = [Attacked(run.before[shown], run.after[shown], run.figures) for run in pictured]
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    sheet(batch[shown], some, data.card.valid_range).save(options.picture, optimize=True)
    told = {
        f"epsilon {epsilon:g}/255": {name: run.figures for name, run in by_run.items()}
        for epsilon, by_run in found.items()
    }
    result = {"samples": options.samples, **told}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
