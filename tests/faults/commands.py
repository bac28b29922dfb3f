"""The commands under attack, on tiny data, and what must be equal in the files they leave.

A command runs in a process of its own, forked from one that has imported the library. It gets the
words that a user types and ends by the same `main`.
"""

import contextlib
import hashlib
import importlib
import json
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from rightreasons.benchmark import Budget, Measure, Method, Suite, Variant
from rightreasons.benchmark.registry import SUITES
from rightreasons.cli.commands import main
from rightreasons.run.run import train_run

CHECKPOINT_SECONDS = 0.02  # so that a run of a second has many
CLOCKS = ("seconds", "finished")  # values that tell the time, and differ from run to run
DATE = re.compile(r"\d{1,2} [A-Z][a-z]+ \d{4}, \d\d:\d\d")
LINES = ".jsonl"
PASSING = (".lock", ".holder")  # files that live as long as a process

TRAIN = "--data decoy_digits --model mlp --set-model hidden=[8] --metrics accuracy,swap_accuracy"


def tiny_suite() -> Suite:
    """Four cells of a tenth of a second each."""
    return Suite(
        name="tiny",
        title="Tiny digits",
        paper="nobody2025nothing",
        table="Table 0",
        base={
            "data": "decoy_digits",
            "model": "mlp",
            "model_settings": {"hidden": [8]},
            "metrics": ["group_accuracy", "swap_accuracy"],
        },
        variants=(Variant(name="digits", overrides={}),),
        methods=(Method(name="ERM", grid=({"lr": 1e-3}, {"lr": 1e-2})),),
        measures=(Measure(key="group_accuracy/worst", name="worst", percent=True),),
        select_by="swap_accuracy",
        budgets={"small": Budget(seeds=(0, 1), overrides={"epochs": 3})},
    )


class Command(NamedTuple):
    """A command to attack.

    Args:
        words: Gives the words of the command, from its folder and the folder of a finished run.
        spoil: For a command that goes on from what a killed one left, words that ask for something
            else in the same folder, which must be refused.
        earlier: For a command that replaces a file, words that write another one under its name.
    """

    words: Callable[[Path, Path], list[str]]
    spoil: Callable[[Path, Path], list[str]] | None = None
    earlier: Callable[[Path, Path], list[str]] | None = None

    @property
    def goes_on(self) -> bool:
        """Whether a second start goes on from what a killed one left."""
        return self.earlier is None


def _train(more: str) -> Callable[[Path, Path], list[str]]:
    return lambda out, run: ["train", *TRAIN.split(), *more.split(), "--resume", "--out", str(out)]


def _annotate(seed: str) -> Callable[[Path, Path], list[str]]:
    words = "annotate decoy_digits --rest --num-annotations 2 --set width=4 --set depth=1"
    return lambda out, run: [
        *words.split(),
        *("--set", "num_updates=8", "--seed", seed, "--cache-dir", str(out / "cache")),
        *("--out", str(out / "masks.npz")),
    ]


def _certify(epsilon: str) -> Callable[[Path, Path], list[str]]:
    return lambda out, run: [
        *("certify", str(run), "--epsilon", epsilon, "--out", str(out / "proof.json"))
    ]


JTT = "--strategy jtt --set-strategy first_epochs=4 --set-strategy upweight=2 --epochs 6"
R3 = "--recipe r3 --set weight=auto --epochs 12 --select accuracy"
COMMANDS = {
    "train": Command(_train(R3), spoil=_train(f"{R3} --seed 7")),
    "train by a strategy": Command(_train(JTT), spoil=_train(f"{JTT} --seed 7")),
    "bench": Command(lambda out, run: ["bench", "run", "tiny", "--out", str(out)]),
    "annotate": Command(_annotate("0"), earlier=_annotate("1")),
    "certify": Command(_certify("0.1"), earlier=_certify("0.05")),
    "report": Command(
        lambda out, run: ["report", str(run), "--out", str(out / "page.html")],
        earlier=lambda out, run: ["report", str(run), str(run), "--out", str(out / "page.html")],
    ),
}


class Ended(NamedTuple):
    """How a process ended: its exit code, or minus the number of a signal, and what it said."""

    code: int
    text: str


class Process:
    """A command in a process of its own.

    Args:
        words: The words of the command.
        log: File for what it says.
        most_bytes: Size beyond which no file can grow; None is no limit.
    """

    def __init__(self, words: list[str], log: Path, most_bytes: int | None = None):
        self.log = log
        self.ended: Ended | None = None
        self.pid = os.fork()
        if not self.pid:
            _run_forked(words, log, most_bytes)

    def wait(self, seconds: float) -> Ended | None:
        """Wait until it ends, at most so long."""
        deadline = time.monotonic() + seconds
        while self.ended is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.ended = Ended(os.waitstatus_to_exitcode(status), self.log.read_text())
            elif time.monotonic() > deadline:
                break
            else:
                time.sleep(0.002)
        return self.ended

    def stop(self, number: int) -> Ended:
        """Send it a signal, unless it ended before, and wait."""
        if self.wait(0.0) is None:
            os.kill(self.pid, number)
        return self.finish()

    def finish(self) -> Ended:
        """Wait until it ends; one that hangs is killed and counts as such."""
        ended = self.wait(120.0)
        if ended is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.ended = ended = Ended(-99, "it did not end within two minutes")
        return ended


def _run_forked(words: list[str], log: Path, most_bytes: int | None) -> None:
    code = 1
    try:
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        if most_bytes is not None:
            import resource

            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
        sys.argv = ["rightreasons", *words]
        main()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def prepare_process(folder: Path) -> Path:
    """Import all that the commands need, so that forks begin at once, and make a finished run."""
    torch.set_num_threads(1)
    train_run.__kwdefaults__["checkpoint_seconds"] = CHECKPOINT_SECONDS
    SUITES._members["tiny"] = tiny_suite
    run, modules = folder / "run", folder / "modules.txt"
    for name, command in COMMANDS.items():
        out = run if name == "train" else folder / "first" / name
        out.mkdir(parents=True)
        if not (pid := os.fork()):
            try:
                handle = os.open(os.devnull, os.O_WRONLY)
                os.dup2(handle, 1)
                os.dup2(handle, 2)
                sys.argv = ["rightreasons", *command.words(out, run)]
                with contextlib.suppress(SystemExit):
                    main()
                modules.write_text("\n".join(sys.modules))
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        for module in modules.read_text().split("\n"):
            with contextlib.suppress(Exception):
                importlib.import_module(module)
        modules.unlink()
    return run


def contents(folder: Path) -> dict[str, str]:
    """A digest of each file below a folder, without what tells the time."""
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.suffix not in PASSING]
    return {str(path.relative_to(folder)): _digest(path) for path in files}


def _digest(path: Path) -> str:
    sha = hashlib.sha256()
    for part in _parts(path):
        sha.update(part)
    return sha.hexdigest()


def _parts(path: Path) -> Iterator[bytes]:
    if path.suffix == LINES:
        lines = [_plain(json.loads(line)) for line in path.read_text().splitlines()]
        # Two processes may note the same hash of the data; `progress_in` refuses a row twice.
        yield from sorted({line.encode() for line in lines})
    elif path.suffix == ".json":
        yield _plain(json.loads(path.read_text())).encode()
    elif path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            for name in sorted(arrays):
                yield f"{name} {arrays[name].dtype} {arrays[name].shape}".encode()
                yield arrays[name].tobytes()
    elif path.suffix == ".pt":
        yield _plain(torch.load(path, weights_only=True)).encode()
    elif path.suffix == ".html":
        yield DATE.sub("", path.read_text()).encode()
    else:
        yield path.read_bytes()


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        kept = {str(key): _plain(part) for key, part in value.items() if key not in CLOCKS}
        return json.dumps(kept, sort_keys=True)
    if isinstance(value, list | tuple):
        return json.dumps([_plain(part) for part in value])
    if isinstance(value, torch.Tensor):
        data = value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return f"{value.dtype} {tuple(value.shape)} {hashlib.sha256(data).hexdigest()}"
    return repr(value)


def progress_in(folder: Path) -> dict[str, tuple[int, int]]:
    """How far each training and each journal below a folder is; a torn last line is none.

    A training is as far as its checkpoint, or at its end where there are weights.
    """
    found: dict[str, tuple[int, int]] = {}
    for path in folder.rglob("checkpoint.pt"):
        position = torch.load(path, weights_only=True)["position"]
        found[str(path.parent)] = (position["epoch"], position["update"])
    for path in folder.rglob("model.safetensors"):
        found[str(path.parent)] = (10**6, 0)
    for path in folder.rglob("results.jsonl"):
        *lines, _torn = path.read_text().split("\n")
        addresses = [json.loads(line)["address"] for line in lines]
        if len(addresses) != len(set(addresses)):
            raise ValueError(f"{path.name} has a cell twice")
        found[str(path)] = (len(addresses), 0)
    return found
