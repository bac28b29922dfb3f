"""Draw attribution maps of finished runs on test images that have a mask.

Each row of the picture has the image, the image with its mask outlined, and two maps of each run:
the input gradient and Grad-CAM. The images are those of one group, by default the last one. In
Decoy HAM that group is the malignant lesions with an artefact. The suite `reff-decoy-ham` keeps its
runs in `OUT/runs`, by the address of their row. Name the run of ERM first and then a guided run of
the same seed, so that the picture shows before and after.

    python benchmarks/decoy_ham_pictures.py --run "ERM=OUT/runs/ADDRESS" \
        --run "R3=OUT/runs/ADDRESS" --data-dir DIR \
        --picture docs/images/decoy_ham.png --out benchmarks/results/decoy_ham_pictures.json
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

import rightreasons as rr
from map_sheet import named_runs, save_sheet, sheet_parser
from rightreasons.explainers import GradCAM, InputGradient, last_spatial_layer
from rightreasons.report.picture import draw_overlay, draw_sample, share_in_mask
from rightreasons.run import Run
from timing import publish

CHUNK = 100


@dataclass(frozen=True)
class Seen:
    """The attribution maps and the right answers of one run's model, image by image."""

    gradient: Tensor
    heat: Tensor
    right: Tensor


def seen(run: Run, data: rr.datasets.Splits, batch: rr.Batch) -> Seen:
    """Compute attributions of the true class, and check the answers."""
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
    """Return accuracy and mean shares of the attributions in the mask."""
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
    """Return the indices of the test images of a group that have a mask."""
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
    """Choose ``count`` of the rows, evenly spread."""
    return rows[torch.linspace(0, len(rows) - 1, min(count, len(rows))).long()]


def rows_of(
    batch: rr.Batch, runs: Sequence[Seen], numbers: Tensor, valid_range: tuple[float, float]
) -> list[list[str]]:
    """Draw for each image: the image, its mask, and the two maps of each run."""
    rows = []
    for number in numbers.tolist():
        x, mask = batch.x[number].numpy(), batch.mask[number].numpy()
        maps = [maps[number].numpy() for run in runs for maps in (run.gradient, run.heat)]
        rows.append(
            [
                draw_sample(x, None, valid_range),
                draw_sample(x, mask, valid_range),
                *(draw_overlay(x, one, mask, valid_range) for one in maps),
            ]
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = sheet_parser(__doc__, shown=6, data_dir_required=False)
    parser.add_argument("--group", help="name of a group; the last one by default")
    options = parser.parse_args(arguments)
    runs, data = named_runs(options)
    batch = data.test.take(spread(masked_rows(data, options.group), options.samples))
    found = {name: seen(run, data, batch) for name, run in runs.items()}
    shown = spread(torch.arange(len(batch)), options.shown)
    drawn = rows_of(batch, list(found.values()), shown, data.card.valid_range)
    save_sheet(drawn, options.picture)
    result = {
        "samples": len(batch),
        "share of pixels in the mask": round(float(batch.mask.mean()), 4),
        **{name: figures(run, batch.mask) for name, run in found.items()},
        "right answers in the picture": {
            name: run.right[shown].tolist() for name, run in found.items()
        },
    }
    publish(result, options.out)


if __name__ == "__main__":
    main()
