"""A disk that is full is told in a sentence; what a killed writer left is removed."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.annotators.mask_files import write_masks
from rightreasons.core.files import (
    load_checkpoint,
    remove_orphans,
    save_checkpoint,
    save_weights,
    writable_folder,
    write_atomically,
    write_json,
)
from rightreasons.datasets import as_dataset
from rightreasons.errors import OutputError
from rightreasons.objectives import CrossEntropy, Term
from rightreasons.training.monitor import TrainingLog

KILLED = """
import os, pathlib, signal, sys
from rightreasons.core.files import write_atomically

path = pathlib.Path(sys.argv[1])
write_atomically(path, lambda file: os.kill(os.getpid(), signal.SIGKILL))
"""
NOISE = np.random.default_rng(0).random(20_000)
MASKS = rr.Batch(
    x=torch.rand(200, 1, 16, 16), y=torch.arange(200) % 2, mask=torch.rand(200, 1, 16, 16)
)
WRITERS = {
    "checkpoint": lambda path: save_checkpoint(path, {"weight": torch.rand(20_000)}),
    "weights": lambda path: save_weights(path, nn.Linear(100, 100)),
    "results": lambda path: write_json(path, NOISE.tolist()),
    "arrays": lambda path: write_atomically(path, lambda file: np.savez_compressed(file, x=NOISE)),
    "masks": lambda path: write_masks(path, as_dataset(MASKS)),
}


@pytest.fixture
def full_disk():
    """Files cannot grow: as on a full disk, a write stops after some bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("kind", WRITERS)
def test_a_full_disk_is_one_sentence_and_leaves_the_old_file(kind, tmp_path, full_disk):
    path = tmp_path / "file.npz"
    path.write_text("old")
    with pytest.raises(OutputError, match=r"Expected a place to write to, but .*file.npz cannot"):
        WRITERS[kind](path)
    assert path.read_text()[:3] == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["file.npz"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_the_remedy_for_a_full_disk_is_room(tmp_path):
    (tmp_path / "log.jsonl").symlink_to("/dev/full")
    log = TrainingLog(
        num_updates=1, num_epochs=1, folder=tmp_path, progress=False, tensorboard=False
    )
    with pytest.raises(OutputError, match="No space left on device.. Make room there, or choose"):
        log.epoch({"epoch": 1})


class FillDisk(Term):
    """Lets no file grow beyond some bytes, from some call on."""

    def __init__(self, *, at):
        super().__init__()
        self.at, self.calls = at, 0

    def forward(self, probe):
        self.calls += 1
        if self.calls == self.at:
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))
        return 0.0 * probe.logits.sum(dim=1)


@pytest.mark.parametrize("seconds", [0.0, 1e9])  # a checkpoint fails first, or the log
def test_the_last_good_checkpoint_stays_when_the_disk_is_full(tmp_path, seconds):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    data = rr.Batch(x=torch.rand(20, 4), y=torch.arange(20) % 2)
    settings = {"batch_size": 5, "out": tmp_path, "checkpoint_seconds": seconds}

    def fit(at, **more):
        torch.manual_seed(0)
        objective = CrossEntropy() + 1.0 * FillDisk(at=at)
        return rr.fit(nn.Linear(4, 2), objective, data, epochs=4, **settings, **more)

    try:
        with pytest.raises(OutputError, match="cannot be written"):
            fit(at=6)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    if not seconds:
        assert load_checkpoint(tmp_path / "checkpoint.pt")["position"]["epoch"] == 1
    assert len(fit(at=-1, resume=True).history) == 4


def test_what_a_killed_writer_left_is_removed_at_the_next_start(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "results.json")])
    assert done.returncode == -9
    (left,) = tmp_path.iterdir()
    own = left.with_name(left.name.replace(f"-{_pid(left)}-", f"-{os.getpid()}-"))
    elsewhere = left.with_name(left.name.replace(f".{_host(left)}-", ".00000000-"))
    foreign = [tmp_path / name for name in (".notes.tmp", ".results.json.abc", "a.tmp", "b")]
    for path in (own, elsewhere, *foreign):
        path.write_text("kept")
    assert writable_folder(tmp_path) == tmp_path
    assert not left.exists()
    assert sorted(tmp_path.iterdir()) == sorted([own, elsewhere, *foreign])
    remove_orphans(tmp_path / "nowhere")


def _pid(path):
    return path.name.rsplit("-", 2)[1]


def _host(path):
    return path.name.rsplit("-", 2)[0].rsplit(".", 1)[1]
