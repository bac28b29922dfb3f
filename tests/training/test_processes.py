"""Two processes do what one does."""

import json
import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

SCRIPT = """
import json
import sys
import torch
from torch import nn
import rightreasons as rr

torch.manual_seed(0)
y = torch.arange(75) % 3
data = rr.Batch(
    x=torch.rand(75, 6, dtype=torch.float64) + y[:, None],
    y=y,
    mask=(torch.rand(75, 6) < 0.3).double(),
    group=torch.arange(75) % 4,
)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)).double()
objective = rr.recipes.group_dro(step_size=0.1) + "auto" * rr.objectives.R3()
fitted = rr.fit(
    model, objective, data, validation=data[:31], select="worst_group", epochs=3, batch_size=16,
    accumulate=2, out=sys.argv[1], accelerator="cpu", devices=int(sys.argv[2]), clip=1.0,
)
metrics = rr.evaluate(model, data, batch_size=10)
if not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0:
    rows = [{k: v for k, v in row.items() if k != "seconds"} for row in fitted.history]
    print("RESULT " + json.dumps({"metrics": metrics, "history": rows, "weights": fitted.weights}))
"""


def result(command, out, script, devices):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [*command, str(script), str(out), str(devices)],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))
    return json.loads(line.removeprefix("RESULT ")), load_file(out / "model.safetensors")


def flat(value, prefix=""):
    if isinstance(value, dict):
        return {k: v for n, part in value.items() for k, v in flat(part, f"{prefix}/{n}").items()}
    if isinstance(value, list):
        return flat(dict(enumerate(value)), prefix)
    return {prefix: value}


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("processes") / "train.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture(scope="module")
def one_process(script):
    return result([sys.executable], script.parent / "one", script, 1)


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["torchrun", "fabric"])
def test_two_processes_equal_one(tmp_path, script, one_process, launcher):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    two = torchrun if launcher == "torchrun" else [sys.executable]
    one_result, one_weights = one_process
    two_result, two_weights = result(two, tmp_path / "two", script, 2)
    for name, tensor in one_weights.items():
        torch.testing.assert_close(two_weights[name], tensor, rtol=1e-9, atol=1e-9)
    ours, theirs = flat(one_result), flat(two_result)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert theirs[name] == pytest.approx(value, rel=1e-7, abs=1e-9), name


TROUBLE = """
import os
import pathlib
import sys
import time
import torch
from torch import nn
import rightreasons as rr

torch.manual_seed(0)
y = torch.arange(64) % 3
data = rr.Batch(x=torch.rand(64, 6) + y[:, None], y=y)
rank = int(os.environ["RANK"])


def told(words):
    pathlib.Path(f"{sys.argv[1]}-{rank}.txt").write_text(words)



class Slow(rr.Term):
    def forward(self, probe):
        time.sleep(0.002 * rank)  # clocks differ between processes
        self.calls = getattr(self, "calls", 0) + 1
        bad = sys.argv[2] == "nan" and rank == 1 and self.calls == 6
        return (float("nan") if bad else 0.0) * probe.logits.sum(dim=1)


model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
try:
    rr.fit(
        model, rr.objectives.CrossEntropy() + 1.0 * Slow(), data, validation=data, epochs=4,
        batch_size=16, out=sys.argv[1], accelerator="cpu", devices=2, checkpoint_seconds=0.01,
    )
except rr.errors.NonFiniteLossError as error:
    told(str(error))
    torch.distributed.barrier()  # gloo may abort if one process goes while the other still runs
    torch.distributed.destroy_process_group()
    sys.exit(0)
values = rr.evaluate(model, data, ["calibration_error"])
alone = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
torch.distributed.barrier()
from safetensors.torch import load_file
alone.load_state_dict(load_file(sys.argv[1] + "/model.safetensors"))
torch.distributed.destroy_process_group()
expected = rr.evaluate(alone, data, ["calibration_error"])
name = "calibration_error"
told(f"{abs(values[name] - expected[name]) < 1e-6} {values} {expected}")
"""


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["clocks", "nan"])
def test_processes_save_and_stop_together(tmp_path, trouble):
    """Saving is a collective: whoever does it alone waits for ever."""
    script = tmp_path / "train.py"
    script.write_text(TROUBLE)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, str(script), str(tmp_path / "run"), trouble],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
    )
    assert done.returncode == 0, done.stderr
    lines = [(tmp_path / f"run-{rank}.txt").read_text() for rank in (0, 1)]
    if trouble == "nan":
        assert all("the term `slow` became NaN" in line for line in lines)
        saved = torch.load(tmp_path / "run" / "checkpoint.pt", weights_only=True)
        assert all(tensor.isfinite().all() for tensor in saved["model"].values())
    else:
        assert all(line.startswith("True") for line in lines), lines
