"""Attack the explanations of finished runs, so that they move to a frame.

PGD changes test images within epsilon, towards a frame, and keeps the prediction. Each row of the
picture has the image, then each run's input gradient before and after the attack. The suite
`alignment-table1` keeps its runs in `OUT/runs`, by the address of their row.

    python benchmarks/manipulation_figure.py --run "CE only=OUT/runs/ADDRESS" \
        --run "l2 + cosine=OUT/runs/ADDRESS" --data-dir DIR --epsilon 2 4 \
        --picture docs/images/manipulation.png --out benchmarks/results/manipulation.json
"""

from typing import NamedTuple

import torch
from rich.progress import track
from torch import Tensor
from torch.nn.functional import cosine_similarity

import rightreasons as rr
from map_sheet import named_runs, save_sheet, sheet_parser
from rightreasons.attacks import AttributionManipulation, frame_map
from rightreasons.explainers import InputGradient, postprocessed
from rightreasons.report.picture import draw_overlay, draw_sample
from rightreasons.run import Run
from timing import publish

TOP = 0.1


class Attacked(NamedTuple):
    """The maps of one run before and after the attack, and the measured figures."""

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
    """Return 1 at the tenth of the pixels with the largest values of each map, else 0."""
    flat = maps.flatten(1)
    highest = flat.topk(round(flat.shape[1] * TOP), dim=1).indices
    return torch.zeros_like(flat).scatter_(1, highest, 1.0).reshape(maps.shape)


def rows_of(
    batch: rr.Batch, runs: list[Attacked], shown: Tensor, valid_range: tuple[float, float]
) -> list[list[str]]:
    """Draw for each image: the image, then each run's map before and after."""
    rows = []
    for number in shown.tolist():
        x = batch.x[number].numpy()
        maps = [maps[number].numpy() for run in runs for maps in (run.before, run.after)]
        attributions = [draw_overlay(x, one, None, valid_range) for one in maps]
        rows.append([draw_sample(x, None, valid_range), *attributions])
    return rows


def main() -> None:
    parser = sheet_parser(__doc__, shown=5, data_dir_required=True)
    parser.add_argument(
        "--epsilon",
        type=float,
        nargs="+",
        default=[4.0],
        help="radii in 255ths; the picture shows the first",
    )
    options = parser.parse_args()
    runs, data = named_runs(options)
    batch = data.test.take(torch.linspace(0, len(data.test) - 1, options.samples).long())
    found = {
        epsilon: {
            name: attacked(run, data, batch, epsilon / 255)
            for name, run in track(runs.items(), f"epsilon {epsilon:g}/255")
        }
        for epsilon in options.epsilon
    }
    pictured = list(found[options.epsilon[0]].values())
    shown = torch.linspace(0, options.samples - 1, options.shown).long()
    save_sheet(rows_of(batch, pictured, shown, data.card.valid_range), options.picture)
    figures = {
        f"epsilon {epsilon:g}/255": {name: run.figures for name, run in by_run.items()}
        for epsilon, by_run in found.items()
    }
    publish({"samples": options.samples, **figures}, options.out)


if __name__ == "__main__":
    main()
