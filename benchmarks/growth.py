"""Measure how time and memory grow with the number of samples: training, metrics, audit, certify.

    OMP_NUM_THREADS=1 python benchmarks/growth.py [--rounds 3] [--only NAME ...] [--out FILE]

Each case runs on N, 2 N and 4 N samples. N is the smallest number that takes a third of a second,
or that of the case. Every measure is a child process of its own, in turn, which first runs on a few
samples. The figures are of these processes:

- ``ratio``: seconds of a processor for 4 N samples by those for 2 N, the least of all rounds.
- ``slope``: the same for the time that is added: from 2 N to 4 N, by that from N to 2 N. It is 2
  where a fixed cost comes before work that grows with the samples.
- ``peak``: the largest resident size for 4 N samples by that for 2 N, and the megabytes between.

The samples are a few hundred that are read again and again under new numbers, so that the data
themselves take no memory.
"""

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

import rightreasons as rr
from rightreasons.datasets import Card, Dataset, InMemory
from rightreasons.datasets.dataset import TextCard
from rightreasons.metrics import METRICS
from timing import machine, publish

KEPT, LEAST_SECONDS, MOST_SAMPLES = 256, 0.35, 65_536
TRAINED = ("erm", "r3", "counterexamples", "group_dro", "cert_r4", "alignment")
OF_TEXTS = {"comprehensiveness", "sufficiency", "token_agreement"}
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
"""The allocator gives memory back that it frees; else its caches would be measured."""
Case = Callable[[int], object]


class Repeated(Dataset):
    """The samples of a data set again and again, under numbers of their own."""

    def __init__(self, base: InMemory, size: int) -> None:
        self.base, self.size, self.card = base, size, base.card

    def __len__(self) -> int:
        return self.size

    def take(self, rows: Tensor) -> rr.Batch:
        """Take rows, as those of the data set."""
        return self.base.take(rows % len(self.base)).with_(index=rows)

    @property
    def labels(self) -> Tensor:
        """The label of each sample."""
        return self.base.labels[torch.arange(self.size) % len(self.base)]

    @property
    def groups(self) -> Tensor | None:
        """The group of each sample."""
        groups = self.base.groups
        return None if groups is None else groups[torch.arange(self.size) % len(self.base)]

    @property
    def lengths(self) -> Tensor | None:
        """The number of tokens of each text."""
        lengths = self.base.lengths
        return None if lengths is None else lengths[torch.arange(self.size) % len(self.base)]

    @property
    def has_masks(self) -> bool:
        """Whether there are masks."""
        return self.base.has_masks

    def digest(self) -> str:
        """Return the digest of the samples."""
        return f"{self.base.digest()} {self.size}"


def images(side: int = 16) -> InMemory:
    """Make noise with a square that tells the class, and masks of the square."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(KEPT) % 2
    x = torch.rand(KEPT, 3, side, side, generator=generator)
    x[:, :, : side // 4, : side // 4] = ((y + 1) / 2)[:, None, None, None]
    mask = torch.zeros(KEPT, 1, side, side)
    mask[..., : side // 4, : side // 4] = 1
    batch = rr.Batch(x=x, y=y, mask=mask, group=torch.arange(KEPT) // 2 % 2)
    card = Card(name="noise", source="drawn", classes=("a", "b"), groups=("a", "b"))
    return InMemory(batch, card)


def texts() -> InMemory:
    """Make texts of twelve words, of which some are masked."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(3, 50, (KEPT, 12), generator=generator)
    batch = rr.Batch(
        x=x,
        y=torch.arange(KEPT) % 2,
        mask=(torch.rand(KEPT, 12, generator=generator) < 0.3).float(),
        inputs={"attention_mask": torch.ones_like(x)},
    )
    text = TextCard(50, mask_token=2, special=(0, 1, 2), substitutes=(5, 7, 11, 13))
    return InMemory(batch, Card(name="texts", text=text, classes=("a", "b")))


def net(data: InMemory, *, maps: bool = False) -> nn.Module:
    """Make a small net for the data."""
    torch.manual_seed(0)
    if data.card.text is not None:
        return rr.models.text_mlp(vocabulary=50, classes=2, width=16)
    _, channels, *size = data.batch.x.shape
    shape = {"classes": 2, "channels": channels, "size": tuple(size)}
    if maps:
        return nn.Sequential(
            *(nn.Conv2d(channels, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(8 * (size[0] - 4) * (size[1] - 4), 2)),
        )
    return rr.models.create("mlp", **shape, hidden=(64,))


def fit_case(name: str, data: InMemory) -> Case:
    def run(size: int) -> None:
        settings = {"epochs": 1, "batch_size": 64, "accelerator": "cpu", "progress": False}
        recipe = rr.recipes.RECIPES.create(name)
        rr.fit(net(data), recipe, Repeated(data, size), **settings)

    return run


def metric_case(name: str, data: InMemory) -> Case:
    def run(size: int) -> None:
        rr.evaluate(net(data, maps=name == "cam_mass"), Repeated(data, size), [name])

    return run


def audit_case(data: InMemory, most: int | None) -> Case:
    def run(size: int) -> None:
        settings = {"max_samples": most or size, "progress": False}
        rr.audit(net(data), Repeated(data, size), **settings)

    return run


def certify_case(data: InMemory, method: str) -> Case:
    def run(size: int) -> None:
        rr.certify(net(data), Repeated(data, size), epsilon=0.1, method=method)

    return run


def cases() -> dict[str, tuple[Case, int | None]]:
    """Return the cases by name, with N where it is given."""
    pictures, words = images(), texts()
    table: dict[str, tuple[Case, int | None]] = {}
    for name in TRAINED:
        table[f"train {name}"] = fit_case(name, pictures), None
    table["train r3, texts"] = fit_case("r3", words), None
    for name in METRICS:
        table[f"metric {name}"] = metric_case(name, words if name in OF_TEXTS else pictures), None
    table["certify, ibp"] = certify_case(pictures, "ibp"), None
    table["certify, auto"] = certify_case(pictures, "auto"), None
    table["audit, all samples"] = audit_case(images(32), None), 800
    table["audit, 800 of the samples"] = audit_case(images(32), 800), 1600
    return table


def measure(case: Case, size: int, few: int) -> dict[str, float]:
    """Run a case in a child of this process; gives seconds of a processor and megabytes."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        sys.stderr = sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - until the process ends
        case(few)
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
        began = time.process_time()
        case(size)
        took = time.process_time() - began
        status = dict(
            line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines()
        )
        found = {"seconds": took, "megabytes": int(status["VmHWM"].split()[0]) / 1024}
        os.write(write, json.dumps(found).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    _, code = os.waitpid(child, 0)
    if code or not told:
        raise SystemExit(f"A measure ended with code {code}.")
    found_here: dict[str, float] = json.loads(told)
    return found_here


def grow(case: Case, given: int | None, rounds: int) -> dict[str, object]:
    """Measure a case on N, 2 N and 4 N samples."""
    few = given or KEPT // 4
    size = few
    while given is None and size < MOST_SAMPLES:
        if measure(case, size, few)["seconds"] >= LEAST_SECONDS:
            break
        size *= 2
    sizes = (size, 2 * size, 4 * size)
    found: dict[int, list[dict[str, float]]] = {one: [] for one in sizes}
    for _ in range(rounds):
        for one in sizes:
            found[one].append(measure(case, one, few))
    seconds = [min(row["seconds"] for row in found[one]) for one in sizes]
    peaks = [min(row["megabytes"] for row in found[one]) for one in sizes]
    return {
        "samples": list(sizes),
        "seconds": [round(one, 3) for one in seconds],
        "megabytes": [round(one, 1) for one in peaks],
        "ratio": round(seconds[2] / seconds[1], 3),
        "slope": round((seconds[2] - seconds[1]) / max(seconds[1] - seconds[0], 1e-9), 3),
        "peak": round(peaks[2] / peaks[1], 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=None, help="names of cases, or parts of them")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    if not ALLOCATOR.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ALLOCATOR})
    torch.set_num_threads(1)
    kept = json.loads(options.out.read_text()) if options.out and options.out.exists() else {}
    rows: dict[str, object] = kept.get("cases", {})
    for name, (case, given) in cases().items():
        if options.only and not any(part in name for part in options.only):
            continue
        rows[name] = grow(case, given, options.rounds)
        result = {"rounds": options.rounds, "cases": rows, "machine": machine()}
        publish(result, options.out)  # after each case, since all take minutes


if __name__ == "__main__":
    main()
