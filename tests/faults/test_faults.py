"""A short campaign in every run of the tests."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.commands import COMMANDS

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_stopped_commands_lose_nothing_and_end_with_the_same_bits(tmp_path):
    out = tmp_path / "faults.json"
    words = "--short --kills 3 --terms 1 --disks 5 --seed 3 --out"
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults", *words.split(), str(out)],
        capture_output=True,
        text=True,
        timeout=500,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert found["SIGKILL"] >= 3 and found["SIGTERM"] >= 1 and not found["failures"]
    full = [name for name in COMMANDS if found["commands"][name]["disk full"]]
    assert full == ["train", "bench", "annotate", "certify", "report"]
