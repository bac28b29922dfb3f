"""Time and memory of the audit against the number of images, their size and the classes.

    python benchmarks/audit_cost.py [--out benchmarks/results/audit/cost.jsonl]

Every cell runs in a process of its own on noise with a square that tells the class, and a small
net that saw 400 of the images once. All images are audited. A row has processor seconds, which
other processes change little, and the largest memory. Ratios of cells that differ by a factor of
two come last. The last cell is 2,000 images of 96 pixels. Cells that have a row are not run again.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch

import rightreasons as rr
from rightreasons.datasets.dataset import Card, InMemory
from rightreasons.types import Batch

BASE = {"images": 400, "size": 32, "classes": 2}
CELLS = [
    BASE,
    *({**BASE, "images": images} for images in (800, 1600)),
    {**BASE, "size": 64},
    *({**BASE, "classes": classes} for classes in (4, 8)),
    {"images": 2000, "size": 96, "classes": 2},
]
ROWS = Path(__file__).parent / "results" / "audit" / "cost.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROWS)
    parser.add_argument("--cell", help="Measure one cell, as JSON, and print its row.")
    options = parser.parse_args()
    if options.cell:
        sys.stdout.write(json.dumps(measure(**json.loads(options.cell))) + "\n")
        return
    options.out.parent.mkdir(parents=True, exist_ok=True)
    rows = _read(options.out)
    for cell in CELLS:
        if not any(cell.items() <= row.items() for row in rows):
            command = [sys.executable, __file__, "--cell", json.dumps(cell)]
            text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            sys.stdout.write(text)
            with options.out.open("a") as file:
                file.write(text)
    for one in ratios(_read(options.out)):
        sys.stdout.write(json.dumps(one) + "\n")


def _read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def ratios(rows: list[dict]) -> list[dict]:
    """What twice the images, the side or the classes cost: times the seconds, more megabytes."""
    found = []
    for one in rows:
        for name in BASE:
            twice = {key: (2 if key == name else 1) * one[key] for key in BASE}
            for other in rows:
                if twice.items() <= other.items():
                    more = other["processor_seconds"] / one["processor_seconds"]
                    found.append(
                        {
                            "doubled": name,
                            "from": {key: one[key] for key in BASE},
                            "times as long": round(more, 2),
                            "linear": 4 if name == "size" else 2,
                        }
                    )
    return found


def measure(images: int, size: int, classes: int) -> dict[str, float]:
    """Audit noise with a tag; gives seconds and megabytes."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(images) % classes
    x = torch.rand(images, 3, size, size, generator=generator)
    side = size // 6
    x[:, :, :side, :side] = ((y + 1) / classes)[:, None, None, None]
    data = InMemory(Batch(x=x, y=y), Card(name="noise", source="drawn"))
    torch.manual_seed(0)
    model = rr.models.create("small_cnn", classes=classes, channels=3, size=(size, size))
    rr.fit(model, rr.recipes.erm(), data.take(torch.arange(400)), epochs=1, progress=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started, cpu = time.monotonic(), time.process_time()
    rr.audit(model, data, max_samples=images, progress=False)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "images": images,
        "size": size,
        "classes": classes,
        "seconds": round(time.monotonic() - started, 1),
        "processor_seconds": round(time.process_time() - cpu, 1),
        "megabytes": round(most / 1024),
        "megabytes_before": round(before / 1024),
    }


if __name__ == "__main__":
    main()
