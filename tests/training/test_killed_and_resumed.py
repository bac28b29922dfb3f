"""Nothing is lost, and nothing changes, when training is killed."""

import os
import subprocess
import sys

import pytest
from safetensors.torch import load_file

# One process imports the library and forks every training, since the import takes seconds.
SCRIPT = """
import os, pathlib, random, signal, sys, time
import torch
from torch import nn
import rightreasons as rr

torch.set_num_threads(1)


def train(out):
    torch.manual_seed(0)
    y = torch.arange(240) % 3
    data = rr.Batch(
        x=torch.rand(240, 1, 6, 6) + y[:, None, None, None] / 6,
        y=y,
        mask=(torch.rand(240, 1, 6, 6) < 0.3).float(),
        group=torch.arange(240) % 4,
    )
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3),
        nn.Linear(64, 3),
    )
    objective = rr.recipes.group_dro(step_size=0.1) + "auto" * rr.objectives.R3()
    rr.fit(
        model, objective, data, validation=data[:60], select="worst_group", epochs=12,
        batch_size=20, seed=3, out=out, resume=True, checkpoint_seconds=0.0, accelerator="cpu",
    )


def start(out):
    child = os.fork()
    if child == 0:
        train(out)
        os._exit(0)
    return child


whole, killed, kills = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
assert os.waitpid(start(whole), 0)[1] == 0
moments, checkpoint = random.Random(0), killed / "checkpoint.pt"
for _ in range(kills):
    before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
    child = start(killed)
    while not checkpoint.exists() or checkpoint.stat().st_mtime_ns == before:
        assert os.waitpid(child, os.WNOHANG) == (0, 0)  # at least one update is made
        time.sleep(0.002)
    time.sleep(moments.uniform(0, 0.1))
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL, "training ended: make it longer"
    assert not (killed / "model.safetensors").exists()
assert os.waitpid(start(killed), 0)[1] == 0
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_five_sigkills_change_no_bit(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    done = subprocess.run(
        [sys.executable, str(script), str(whole), str(killed), "5"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    expected, resumed = (load_file(run / "model.safetensors") for run in (whole, killed))
    assert expected.keys() == resumed.keys()
    for name, tensor in expected.items():
        assert tensor.equal(resumed[name]), name
    for run in (whole, killed):
        assert len((run / "log.jsonl").read_text().splitlines()) == 12
