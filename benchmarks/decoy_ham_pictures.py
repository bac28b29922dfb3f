"""What do models look at: the lesion, or the ruler beside it?

Draws a line for each test image: the image, the image with its mask outlined, then for each run its
input gradient and its Grad-CAM map. Images are those of one group that have a mask, the last group
unless told, which in Decoy HAM is malignant lesions with an artefact. Runs of the suite
`reff-decoy-ham` lie in `OUT/runs`, by the address of their row; name ERM's first, then a guided one
of the same seed, to see before and after.

    python benchmarks/decoy_ham_pictures.py --run "ERM=OUT/runs/ADDRESS" \
        --run "R3=OUT/runs/ADDRESS" --data-dir DIR \
        --picture docs/images/decoy_ham.png --out benchmarks/results/decoy_ham_pictures.json
"""

import argparse
import base64
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

import rightreasons as rr
from rightreasons.explainers import GradCAM, InputGradient, last_spatial_layer
from rightreasons.report.picture import overlay, portrait, share_in_mask
from rightreasons.run.run import Run, load_run

GAP = 6
CHUNK = 100


@dataclass(frozen=True)
class Seen:
    """What one run's model answers and looks at, image by image."""

    gradient: Tensor
    heat: Tensor
    right: Tensor


def seen(run: Run, data: rr.datasets.Splits, batch: rr.Batch) -> Seen:
    """Attributions of the true class and whether the answer is right."""
    model = run.load_model(data)
    layer = run.config.metric_settings.get("cam_mass", {}).get("layer")
    heat = GradCAM(layers=layer or last_spatial_layer(model, batch.x[:1]))
    gradients, maps, answers = [], [], []
    for x, y in zip(batch.x.split(CHUNK), batch.y.split(CHUNK), strict=True):
        gradients.append(InputGradient()(model, x, y).detach())
        maps.append(heat(model, x, y).detach().expand_as(x))
        with torch.no_grad():
            answers.append(model(x).argmax(dim=1) == y)
    return Seen(torch.cat(gradients), torch.cat(maps), torch.cat(answers))


def figures(found: Seen, mask: Tensor) -> dict[str, float]:
    """The means over all images that were looked at."""
    shares = {
        name: [share_in_mask(a.numpy(), m.numpy()) for a, m in zip(maps, mask, strict=True)]
        for name, maps in (("gradient", found.gradient), ("heat", found.heat))
    }
    means = {
        f"share of the {name} on the mask": float(np.mean([s for s in each if s is not None]))
        for name, each in shares.items()
        if any(share is not None for share in each)
    }
    accuracy = {"accuracy in the group": float(found.right.float().mean())}
    return {name: round(value, 4) for name, value in {**accuracy, **means}.items()}


def masked_rows(data: rr.datasets.Splits, group: str | None) -> Tensor:
    """Where test images of a group lie that have a mask."""
    names, groups = data.card.groups, data.test.groups
    rows = torch.arange(len(data.test))
    if groups is not None and names:
        if group is not None and group not in names:
            raise SystemExit(f"Expected --group to be one of {names}, but got {group!r}.")
        rows = rows[groups == (len(names) - 1 if group is None else names.index(group))]
    has_mask = [
        mask.flatten(1).any(dim=1)
        for some in rows.split(CHUNK)
        if (mask := data.test.take(some).mask) is not None
    ]
    rows = rows[torch.cat(has_mask)] if has_mask else rows[:0]
    if not len(rows):
        raise SystemExit("Expected test images with a mask in the group, but there is none.")
    return rows


def spread(rows: Tensor, count: int) -> Tensor:
    """So many of them, evenly spread."""
    return rows[torch.linspace(0, len(rows) - 1, min(count, len(rows))).long()]


def pixels(address: str) -> NDArray[np.uint8]:
    content = base64.b64decode(address.partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


def sheet(
    batch: rr.Batch, runs: Sequence[Seen], rows: Tensor, valid_range: tuple[float, float]
) -> Image.Image:
    """One line an image: the image, its mask, and each run's two maps."""
    lines = []
    for number in rows.tolist():
        x, mask = batch.x[number].numpy(), batch.mask[number].numpy()
        cells = [portrait(x, None, valid_range), portrait(x, mask, valid_range)]
        for run in runs:
            for maps in (run.gradient, run.heat):
                cells.append(overlay(x, maps[number].numpy(), mask, valid_range))
        drawn = [pixels(cell) for cell in cells]
        gap = np.full((drawn[0].shape[0], GAP, 3), 255, np.uint8)
        lines.append(np.concatenate([part for cell in drawn for part in (cell, gap)], axis=1))
    space = np.full((GAP, lines[0].shape[1], 3), 255, np.uint8)
    return Image.fromarray(np.concatenate([part for line in lines for part in (line, space)]))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", action="append", required=True, help="NAME=FOLDER; repeatable")
    parser.add_argument("--data-dir")
    parser.add_argument("--group", help="name of a group; the last one unless told")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--shown", type=int, default=6)
    parser.add_argument("--picture", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    runs = {name: load_run(folder) for name, folder in (r.split("=", 1) for r in options.run)}
    first = next(iter(runs.values()))
    data = replace(first.config, data_dir=options.data_dir).load_data()
    batch = data.test.take(spread(masked_rows(data, options.group), options.samples))
    found = {name: seen(run, data, batch) for name, run in runs.items()}
    shown = spread(torch.arange(len(batch)), options.shown)
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    drawn = sheet(batch, list(found.values()), shown, data.card.valid_range)
    drawn.save(options.picture, optimize=True)
    result = {
        "samples": len(batch),
        "share of pixels in the mask": round(float(batch.mask.mean()), 4),
        **{name: figures(run, batch.mask) for name, run in found.items()},
        "right answers in the picture": {
            name: run.right[shown].tolist() for name, run in found.items()
        },
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
