"""The campaign: signals at random moments and full disks, then a new start and a comparison.

Each case works in a folder of its own. It ends with the files of a run that nobody disturbed, to
the bit, and on the way there nothing that was finished may disappear.
"""

import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from rightreasons.core.files import library_versions
from tests.faults.commands import (
    COMMANDS,
    Command,
    Ended,
    Process,
    contents,
    prepare_process,
    progress_in,
)

# The commands in turn; training is attacked most often, and one round has all of them.
ROUND = ("train", "bench", "annotate", "certify", "report", "train by a strategy", "train")
ROUND = (*ROUND, "bench", "train", "annotate")
TMPFS_BYTES = 8 << 20
KINDS = ("SIGKILL", "SIGTERM", "disk full")
FULL = ("No space left on device", "File too large")
MOST_KILLS = 3  # of one run, before it may end


@dataclass
class Campaign:
    """The counts of a campaign, by kind of fault and by command."""

    seed: int
    faults: dict[str, Counter[str]] = field(default_factory=lambda: {k: Counter() for k in KINDS})
    cases: int = 0
    resumed: int = 0  # faults after which a checkpoint or a row was there to go on from
    intruders: int = 0  # commands with other settings that were refused
    way: str = ""  # how the disk was filled
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def fail(self, name: str, what: str) -> None:
        """Note what went wrong."""
        self.failures.append(f"{name}, case {self.cases}: {what}")

    def to_dict(self) -> dict[str, Any]:
        """The counts as JSON has them."""
        return {
            **{kind: counts.total() for kind, counts in self.faults.items()},
            "cases": self.cases,
            "resumed": self.resumed,
            "intruders refused": self.intruders,
            "failures": len(self.failures),
            "failed": self.failures,
            "disk filled by": self.way,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "commands": {
                name: {kind: self.faults[kind][name] for kind in KINDS} for name in COMMANDS
            },
            "versions": {**library_versions(), "platform": platform.system()},
        }


class Attack:
    """Runs cases in a folder and counts them.

    Args:
        folder: An empty folder to work in.
        seed: Random seed for commands and moments.
        mounts: Whether full disks may be mounted; else the size of files is limited.
    """

    def __init__(self, folder: Path, *, seed: int, mounts: bool):
        self.folder, self.random, self.mounts = folder, random.Random(seed), mounts
        self.campaign = Campaign(seed)
        self.run = prepare_process(folder)
        self.log = folder / "log.txt"
        self.expected: dict[str, dict[str, str]] = {}
        self.earlier: dict[str, dict[str, str]] = {}
        self.took: dict[str, float] = {}
        self.sizes: dict[str, int] = {}
        for name, command in COMMANDS.items():
            started = time.monotonic()
            out = self._run_undisturbed(f"whole/{name}", command.words)
            self.took[name] = time.monotonic() - started
            self.expected[name] = contents(out)
            self.sizes[name] = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
            if command.earlier is not None:
                out = self._run_undisturbed(f"earlier/{name}", command.earlier)
                self.earlier[name] = contents(out)

    def _run_undisturbed(self, place: str, words: Callable[[Path, Path], list[str]]) -> Path:
        out = self.folder / place
        out.mkdir(parents=True)
        ended = Process(words(out, self.run), self.log).finish()
        if ended.code:
            raise RuntimeError(f"{place} fails without a fault: {ended.text}")
        return out

    def check_fresh_process(self) -> None:
        """A process that was not forked leaves the same bits."""
        out = self.folder / "fresh"
        out.mkdir()
        words = COMMANDS["train"].words(out, self.run)
        command = [sys.executable, "-m", "rightreasons.cli", *words]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode or contents(out) != self.expected["train"]:
            self.campaign.fail("train", f"a fresh process leaves other files: {done.stderr}")

    # Signals.

    def signal_case(self, kind: str, name: str) -> None:
        """Stop a command by a signal at random moments, start it again, and compare its end."""
        command, campaign = COMMANDS[name], self.campaign
        campaign.cases += 1
        out = self._fresh(name)
        number = getattr(signal, kind)
        wanted = self.random.randint(1, MOST_KILLS) if command.goes_on else 1
        before, files = progress_in(out), whole_files(out)
        hits, share = 0, 1.0
        while hits < wanted:
            process = Process(command.words(out, self.run), self.log)
            moment = share * self.random.uniform(0, self.took[name])
            partner = None
            if name == "bench" and self.random.random() < 0.5:
                partner = Process(command.words(out, self.run), self.folder / "partner.txt")
            ended = process.wait(moment)
            if ended is None:
                if (out / ".lock.holder").exists() and self.random.random() < 0.3:
                    self._intrude(name, out)
                ended = process.stop(number)
            if partner is not None and (other := partner.finish()).code:
                campaign.fail(name, f"the other process ended with {other.code}: {other.text}")
            self._check_words(name, ended, stopped=number)
            before = self._check_progress(name, out, before, files)
            if ended.code == 0:
                if hits:
                    break
                out, before, share = self._fresh(name), {}, share * 0.7  # it was too late
                files = whole_files(out)
                continue
            hits += 1
            campaign.faults[kind][name] += 1
            campaign.resumed += command.goes_on and bool(before)
            if before and self.random.random() < 0.3:
                self._intrude(name, out)
        self._finish(name, out)

    def _intrude(self, name: str, out: Path) -> None:
        """Start a command with other settings in a folder that is in use, or begun."""
        spoil = COMMANDS[name].spoil
        if spoil is None:
            return
        ended = Process(spoil(out, self.run), self.folder / "intruder.txt").finish()
        lines = ended.text.strip().splitlines()
        if ended.code == 2 and lines and lines[-1].startswith("Error: Expected"):
            self.campaign.intruders += 1
        else:
            self.campaign.fail(name, f"an intruder ended with {ended.code}: {ended.text}")

    # Full disks.

    def disk_case(self, name: str) -> None:
        """Fill the disk below a command, make room again, start it again, and compare its end."""
        command, campaign = COMMANDS[name], self.campaign
        campaign.cases += 1
        with small_disk(self.folder, mounts=self.mounts) as (disk, way):
            campaign.way = way
            out = self._fresh(name, disk)
            share = 1.0
            while True:
                if command.goes_on and self.random.random() < 0.7:  # something to lose
                    first = Process(command.words(out, self.run), self.log)
                    first.wait(self.random.uniform(0, 0.8 * self.took[name]))
                    first.stop(signal.SIGKILL)
                before, files = progress_in(out), whole_files(out)
                room = int(share * self.random.uniform(0, self.sizes[name]))
                ended = self._run_without_room(command, disk, out, room, way)
                if ended.code:
                    break
                shutil.rmtree(out)
                out, share = self._fresh(name, disk), share * 0.6  # it had room enough
            campaign.faults["disk full"][name] += 1
            campaign.resumed += command.goes_on and bool(before)
            self._check_sentence(name, ended)
            self._check_progress(name, out, before, files)
            self._finish(name, out)

    def _run_without_room(
        self, command: Command, disk: Path, out: Path, room: int, way: str
    ) -> Ended:
        words = command.words(out, self.run)
        if way != "tmpfs":
            return Process(words, self.log, most_bytes=room).finish()
        filler = disk / "filler"
        free = shutil.disk_usage(disk).free
        with filler.open("wb") as file:
            if free > room:
                os.posix_fallocate(file.fileno(), 0, free - room)
        try:
            return Process(words, self.log).finish()
        finally:
            filler.unlink()

    # Checks.

    def _fresh(self, name: str, place: Path | None = None) -> Path:
        """An empty folder; commands that replace a file find an older one there."""
        out = (place or self.folder) / "case"
        if out.exists():
            shutil.rmtree(out)
        out.mkdir()
        if not COMMANDS[name].goes_on and self.random.random() < 0.5:
            for path in (self.folder / "earlier" / name).glob("*.*"):
                shutil.copy(path, out / path.name)
        return out

    def _check_words(self, name: str, ended: Ended, *, stopped: int) -> None:
        if "Traceback" in ended.text:
            self.campaign.fail(name, f"a traceback: {ended.text}")
        elif ended.code not in (0, -stopped, 128 + stopped):
            self.campaign.fail(name, f"exit code {ended.code}: {ended.text}")
        elif COMMANDS[name].goes_on and ended.code > 0 and "--resume" not in ended.text:
            self.campaign.fail(name, f"no word on how to go on: {ended.text}")

    def _check_sentence(self, name: str, ended: Ended) -> None:
        errors = [line for line in ended.text.splitlines() if line.startswith("Error: ")]
        told = len(errors) == 1 and any(words in errors[0] for words in FULL)
        if ended.code != 2 or not told or "Traceback" in ended.text:
            self.campaign.fail(name, f"no sentence, exit code {ended.code}: {ended.text}")

    def _check_progress(
        self,
        name: str,
        out: Path,
        before: dict[str, tuple[int, int]],
        files: dict[str, str],
    ) -> dict[str, tuple[int, int]]:
        """What was finished is still there, and can be read."""
        try:
            now = progress_in(out)
        except Exception as error:
            self.campaign.fail(name, f"what a stopped process left cannot be read: {error}")
            return before
        for place, reached in before.items():
            if now.get(place, (0, 0)) < reached:
                self.campaign.fail(name, f"lost at {place}: {reached}, now {now.get(place)}")
        if not COMMANDS[name].goes_on:  # each file is the old one or the new one
            found = whole_files(out)
            for path, digest in found.items():
                if digest not in (self.expected[name].get(path), self.earlier[name].get(path)):
                    self.campaign.fail(name, f"{path} is damaged")
            for path in files.keys() - found.keys():
                self.campaign.fail(name, f"{path} is lost")
        return now

    def _finish(self, name: str, out: Path) -> None:
        """Start the command once more and compare what it leaves with an undisturbed run."""
        ended = Process(COMMANDS[name].words(out, self.run), self.log).finish()
        if ended.code:
            self.campaign.fail(name, f"the last start ended with {ended.code}: {ended.text}")
            return
        found, expected = contents(out), self.expected[name]
        for path in sorted(found.keys() | expected.keys()):
            if found.get(path) != expected.get(path):
                state = "too much" if path not in expected else "missing"
                state = "different" if path in found and path in expected else state
                self.campaign.fail(name, f"{path} is {state}")


def whole_files(folder: Path) -> dict[str, str]:
    """The digests of all files but temporary ones; a damaged one has none."""
    try:
        return {n: d for n, d in contents(folder).items() if not n.endswith(".tmp")}
    except Exception as error:
        return {"unreadable": str(error)}


@contextmanager
def small_disk(folder: Path, *, mounts: bool) -> Iterator[tuple[Path, str]]:
    """A disk of a few megabytes; where none may be mounted, files of a limited size."""
    place = folder / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_BYTES}", "tmpfs", str(place)]
    try:
        mounted = mounts and subprocess.run(mount, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    try:
        yield place, "tmpfs" if mounted else "a limit on the size of files"
    finally:
        if mounted:
            subprocess.run(["umount", str(place)], check=True)
        shutil.rmtree(place)


def run_campaign(
    folder: Path, *, seed: int, kills: int, terms: int, disks: int, is_short: bool = False
) -> Campaign:
    """Make so many faults of each kind.

    Args:
        folder: An empty folder to work in.
        seed: Random seed for commands and moments.
        kills: Number of SIGKILL.
        terms: Number of SIGTERM.
        disks: Number of full disks.
        is_short: Whether to mount nothing and to leave out the comparison with a fresh process.
    """
    started = time.monotonic()
    attack = Attack(folder, seed=seed, mounts=not is_short)
    campaign = attack.campaign
    if not is_short:
        attack.check_fresh_process()
    bar = Progress(console=Console(stderr=True), transient=True)
    line = bar.add_task("attacking", total=kills + terms + disks)
    with bar:
        for kind, wanted in zip(KINDS, (kills, terms, disks), strict=True):
            turn = 0
            while (done := campaign.faults[kind].total()) < wanted:
                name = ROUND[turn % len(ROUND)]
                turn += 1
                if kind == "disk full":
                    attack.disk_case(name)
                else:
                    attack.signal_case(kind, name)
                bar.advance(line, campaign.faults[kind].total() - done)
    campaign.seconds = time.monotonic() - started
    return campaign
