"""Measure training on images that stay on disk, and the memory of a run on a small folder.

    python benchmarks/streaming.py stream [--images 100000] [--out FILE]
    python benchmarks/streaming.py folder [--before SOURCE] [--out FILE]

Images are JPEG files of 64 x 64 pixels. ``stream`` writes many and trains a small net on them for
an epoch, with as many processes as there are processors. Then batches are read and not used. Before
and after, as many processes decode the same files and do nothing else. The figures are images a
second, processors in use, seconds of processors, which do not depend on what else the machine does,
and the memory of all processes (shared pages count once), at a tenth of the epoch and later.

``folder`` trains and evaluates on 1,500 images by the command line, with masks. The
figure is the largest resident size of the process. SOURCE is the folder ``src`` of another version,
such as a worktree of it has, which does the same.

With ``--out`` the figures are kept beside those of the other command.
"""

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

import rightreasons as rr
from timing import machine, publish

SIDE, NUM_FOLDER = 64, 1500
BATCH = 100
RUN = ("--model", "small_cnn", "--recipe", "r3", "--epochs", "1", "--batch-size", "128")


def write_images(root: Path, number: int, side: int, *, masks: bool) -> None:
    """Write images in two classes and their table; the last fifth is for tests."""
    draw = np.random.default_rng(0)
    columns = ["file", "label", "split", *(["mask"] if masks else [])]
    rows = []
    for index in range(number):
        folder = root / str(index // 1000)
        folder.mkdir(parents=True, exist_ok=True)
        pixels = draw.integers(0, 255, (4, 4, 3), dtype=np.uint8)
        pixels[:, :2] //= 1 + index % 2
        name = f"{index // 1000}/{index}.jpg"
        Image.fromarray(pixels).resize((side, side)).save(root / name, quality=90)
        row = [name, str(index % 2), "test" if masks and index % 5 == 4 else "train"]
        if masks:
            mask = np.zeros((side, side), dtype=np.uint8)
            mask[: side // 8, : side // 8] = 255
            Image.fromarray(mask).save(root / f"{index // 1000}/{index}.png")
            row.append(f"{index // 1000}/{index}.png")
        rows.append(row)
    if not masks:  # a table needs a test split
        rows[-1][2] = "test"
    with open(root / "data.csv", "w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])


def decode_part(root: str, names: list[str]) -> int:
    """Decode files one after the other to what a net takes, as torchvision does; keep nothing."""
    for name in names:
        pixels = torch.from_numpy(np.array(Image.open(os.path.join(root, name)).convert("RGB")))
        pixels.permute(2, 0, 1).contiguous().float().div_(255)
    return len(names)


class Cost:
    """Seconds on the clock and of processors, for what runs inside."""

    def __enter__(self) -> "Cost":
        self.began, self.used = time.perf_counter(), processor_seconds()
        return self

    def __exit__(self, *error: object) -> None:
        self.seconds = time.perf_counter() - self.began
        self.used = processor_seconds() - self.used


def decode_alone(root: Path, names: list[str], workers: int) -> Cost:
    """Decode files in some processes."""
    parts = [names[start : start + BATCH] for start in range(0, len(names), BATCH)]
    with Cost() as cost, ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
        done = sum(pool.map(decode_part, [str(root)] * len(parts), parts))
    if done != len(names):
        raise SystemExit(f"Expected {len(names)} images, but {done} were decoded.")
    return cost


def memory_mib() -> float:
    """Memory of this process and its children; pages that several share count once."""
    total = 0.0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if int(folder.name) == os.getpid() or parent == os.getpid():
                lines = (folder / "smaps_rollup").read_text().splitlines()
                total += sum(float(line.split()[1]) for line in lines if line.startswith("Pss:"))
        except (OSError, IndexError):  # the process has ended
            continue
    return total / 1024


@contextmanager
def sampled(measure: Callable[[], float], seconds: float) -> Iterator[list[tuple[float, float]]]:
    """Measure every few seconds in a thread; gives time and value."""
    rows: list[tuple[float, float]] = []
    stop, began = threading.Event(), time.perf_counter()

    def loop() -> None:
        while not stop.wait(seconds):
            rows.append((time.perf_counter() - began, measure()))

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield rows
    finally:
        stop.set()
        thread.join()


def processor_seconds() -> float:
    own, children = (
        resource.getrusage(one) for one in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def measure_stream(root: Path, number: int) -> dict[str, object]:
    """Train for an epoch between two rounds of decoding."""
    write_images(root, number, SIDE, masks=False)
    workers = os.cpu_count() or 1
    settings = {"in_memory": False, "verify": False, "workers": workers}
    data = rr.datasets.folder(root, size=SIDE, **settings).train
    names = [entry.file for entry in data.entries]  # type: ignore[attr-defined]
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE * SIDE, 2))
    alone = [decode_alone(root, names, workers)]
    with sampled(memory_mib, 0.5) as rows, Cost() as fitted:
        rr.fit(net, rr.recipes.erm(), data, epochs=1, batch_size=BATCH, accelerator="cpu")
    with Cost() as reading:
        for _ in data.batches(torch.split(torch.randperm(len(data)), BATCH)):
            pass
    alone.append(decode_alone(root, names, workers))
    took = fitted.seconds
    clock, used = sum(one.seconds for one in alone) / 2, sum(one.used for one in alone) / 2
    early = [value for second, value in rows if 0.1 < second / took <= 0.2]
    late = [value for second, value in rows if second / took > 0.2]
    return {
        "images": len(names),
        "processes": workers,
        "decoding alone, images a second": [round(len(names) / one.seconds) for one in alone],
        "reading, images a second": round(len(names) / reading.seconds),
        "training, images a second": round(len(names) / took),
        "reading beside decoding": round(clock / reading.seconds, 3),
        "training beside decoding": round(clock / took, 3),
        "seconds of processors, decoding beside reading": round(used / reading.used, 3),
        "seconds of processors, decoding beside training": round(used / fitted.used, 3),
        "processors in use, decoding": [round(one.used / one.seconds, 2) for one in alone],
        "processors in use, reading": round(reading.used / reading.seconds, 2),
        "processors in use, training": round(fitted.used / took, 2),
        "load of the machine": round(os.getloadavg()[0], 1),
        "MiB at a tenth to a fifth": round(max(early)),
        "MiB later, most": round(max(late)),
        "memory, later beside early": round(max(late) / max(early), 3),
    }


def measure_folder(root: Path, source: Path) -> dict[str, object]:
    """Train and evaluate by the command line of one version."""
    code = (
        "import resource, sys\n"
        "from rightreasons.cli.commands import main\n"
        "try:\n    main()\n"
        "finally:\n    print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    data = ("--data", "folder", "--data-dir", str(root), "--set-data", "mask_polarity=irrelevant")
    out = tempfile.mkdtemp(dir=root)
    command = [sys.executable, "-c", code, "train", *data, *RUN, "--out", f"{out}/run"]
    began = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    peak = int(done.stdout.rpartition("peak")[2])
    return {"peak GiB": round(peak / 2**20, 2), "seconds": round(time.perf_counter() - began, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=["folder", "stream"])
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--before", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    kept = json.loads(options.out.read_text()) if options.out and options.out.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        if options.what == "stream":
            kept["stream"] = measure_stream(root, options.images)
        else:
            write_images(root, NUM_FOLDER, SIDE, masks=True)
            now = measure_folder(root, Path(rr.__file__).parents[1])
            kept["folder"] = {"images": NUM_FOLDER, "side": SIDE, "after": now}
            if options.before is not None:
                kept["folder"]["before"] = measure_folder(root, options.before)
    publish({**kept, "machine": machine()}, options.out)


if __name__ == "__main__":
    main()
