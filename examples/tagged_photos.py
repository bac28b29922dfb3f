"""Write photographs of cats and dogs as a user has them: a folder of files and a data.csv.

    python examples/tagged_photos.py DATA_DIR OUT [--size 48] [--shortcut tag]

DATA_DIR holds the photographs, as for the data set `pets_tag`. The folder has no masks, and names
groups in the test part alone. Whoever reads it has to find the shortcut without being told.
"""

import argparse
import csv
from pathlib import Path

import torch
from PIL import Image

import rightreasons as rr


def write_photos(data: rr.datasets.Splits, out: Path) -> None:
    """Write the images and their table."""
    out.mkdir(parents=True)
    rows = [["file", "label", "split", "group"]]
    for split, part in (("train", data.train), ("val", data.val), ("test", data.test)):
        for index in range(len(part)):
            batch = part.take(torch.tensor([index]))
            pixels = (255 * batch.x[0]).round().byte().permute(1, 2, 0).numpy()
            name = f"{split}-{index:04}.png"
            Image.fromarray(pixels).save(out / name)
            group = part.card.groups[int(batch.group[0])] if split == "test" else ""
            rows.append([name, part.card.classes[int(batch.y[0])], split, group])
    with (out / "data.csv").open("w", newline="") as table:
        csv.writer(table).writerows(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", type=int, default=48)
    parser.add_argument("--shortcut", default="tag")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    settings = {"size": given.size, "shortcut": given.shortcut, "seed": given.seed}
    write_photos(rr.datasets.pets_tag(given.data_dir, **settings), given.out)
