"""Nothing is lost, and nothing changes, when training is killed."""

import random
import subprocess
import sys
import time
from pathlib import Path

from safetensors.torch import load_file

SCRIPT = """
import sys
import torch
from torch import nn
import rightreasons as rr

torch.set_num_threads(1)
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
    model, objective, data, validation=data[:60], select="worst_group", epochs=40, batch_size=20,
    seed=3, out=sys.argv[1], resume=True, checkpoint_seconds=0.0, accelerator="cpu",
)
"""
KILLS = 5


def start(script: Path, out: Path) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, str(script), str(out)])


def test_five_sigkills_change_no_bit(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    assert start(script, tmp_path / "whole").wait(timeout=300) == 0

    moments = random.Random(0)
    killed = tmp_path / "killed"
    checkpoint = killed / "checkpoint.pt"
    kills = 0
    while kills < KILLS:
        process = start(script, killed)
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        while process.poll() is None:  # let it make at least one update
            if checkpoint.exists() and checkpoint.stat().st_mtime_ns != before:
                break
            time.sleep(0.002)
        time.sleep(moments.uniform(0, 0.2))
        assert process.poll() is None, "training ended before it could be killed: make it longer"
        process.kill()
        process.wait(timeout=60)
        kills += 1
        assert not (killed / "model.safetensors").exists()
    assert start(script, killed).wait(timeout=300) == 0

    whole = load_file(tmp_path / "whole" / "model.safetensors")
    resumed = load_file(killed / "model.safetensors")
    assert whole.keys() == resumed.keys()
    for name, tensor in whole.items():
        assert tensor.equal(resumed[name]), name
    lines = [(tmp_path / run / "log.jsonl").read_text().splitlines() for run in ("whole", "killed")]
    assert len(lines[0]) == len(lines[1]) == 40
