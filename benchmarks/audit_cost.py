"""Time and memory of the audit against the number of images, their size and the classes.

    python benchmarks/audit_cost.py [--out benchmarks/results/audit/cost.jsonl]

Every cell runs in a process of its own on noise with a square that tells the class, and a small
untrained net. A row has processor seconds, which other processes do not change, and the largest
memory. The last cell is 2,000 images of 96 pixels.
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

CELLS = [
    *({"images": images, "size": 48, "classes": 2} for images in (250, 500, 1000, 2000, 4000)),
    *({"images": 500, "size": size, "classes": 2} for size in (24, 96, 192)),
    *({"images": 500, "size": 48, "classes": classes} for classes in (5, 10)),
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
    rows = []
    for cell in CELLS:
        command = [sys.executable, __file__, "--cell", json.dumps(cell)]
        rows.append(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        sys.stdout.write(rows[-1])
        options.out.write_text("".join(rows))


def measure(images: int, size: int, classes: int) -> dict[str, float]:
    """Audit noise with a tag; gives seconds and megabytes."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(images) % classes
    x = torch.rand(images, 3, size, size, generator=generator)
    side = size // 6
    x[:, :, :side, :side] = ((y + 1) / classes)[:, None, None, None]
    data = InMemory(Batch(x=x, y=y), Card(name="noise", source="drawn"))
    torch.manual_seed(0)
    model = rr.models.create("small_cnn", classes=classes, channels=3, size=(size, size)).eval()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started, cpu = time.monotonic(), time.process_time()
    rr.audit(model, data, progress=False)
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
