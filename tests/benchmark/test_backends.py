"""Cells in other processes and on other nodes: the rows of this process, whatever dies."""

import importlib.util
import json
import logging
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from rich.progress import Progress
from typer.testing import CliRunner

from rightreasons.benchmark import (
    Budget,
    Method,
    backends,
    comparison,
    read_rows,
    run_suite,
    runner,
)
from rightreasons.benchmark.backends import Backend, open_backend
from rightreasons.benchmark.cell import Outcome, describe_code, run_job
from rightreasons.benchmark.store import Store
from rightreasons.cli import app
from rightreasons.errors import InvalidSettingError, MissingExtraError
from rightreasons.run.run import load_run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

NET = """
import os, signal, sys, time
from pathlib import Path
from torch import nn

HERE = Path(__file__).parent

def make(classes, size, label, fails=False, dies=0):
    ray = sys.modules.get("ray")
    on_ray = ray is not None and ray.is_initialized()
    node = ray.get_runtime_context().get_node_id() if on_ray else "-"
    with (HERE / "calls").open("a") as file:
        file.write(f"{label} {os.getpid()} {node}\\n")
    if fails:
        raise ValueError("this net cannot be made")
    if (HERE / "calls").read_text().count(f"{label} ") <= dies:
        os.kill(os.getpid(), signal.SIGKILL)
    if (HERE / "pause").exists():
        time.sleep(1.0)
    return nn.Sequential(nn.Flatten(), nn.Linear(size[0] * size[1], classes))
"""

DRIVER = """
import pickle, sys
from rightreasons.benchmark import run_suite
suite, out = pickle.loads(bytes.fromhex(sys.argv[1])), sys.argv[2]
run_suite(suite, out=out, accelerator="cpu", progress=False, workers=2)
"""


@pytest.fixture
def nets(tmp_path):
    """A suite whose nets note when they are made, and may fail, die or take their time."""
    (tmp_path / "net.py").write_text(NET)

    class Nets:
        def method(self, name, **settings):
            model_settings = {"label": name, **settings}
            model = {"model": f"{tmp_path}/net.py:make", "model_settings": model_settings}
            return Method(name=name, overrides=model)

        def calls(self, name=""):
            path = tmp_path / "calls"
            lines = path.read_text().splitlines() if path.exists() else []
            return [line.split() for line in lines if line.startswith(name)]

        def forget(self):
            (tmp_path / "calls").unlink(missing_ok=True)

        def pause(self):
            (tmp_path / "pause").touch()

    return Nets()


@pytest.fixture
def tiny(make_suite, nets):
    """A suite of such nets."""

    def tiny(*methods, seeds=(0, 1), epochs=2):
        base = {
            "data": "decoy_digits",
            "batch_size": 500,
            "metrics": ["group_accuracy", "swap_accuracy"],
        }
        budgets = {"small": Budget(seeds=seeds, overrides={"epochs": epochs})}
        return make_suite(base=base, methods=methods, budgets=budgets)

    return tiny


def run(suite, out, **settings):
    return run_suite(suite, out=out, accelerator="cpu", **{"progress": False, **settings})


def timeless(value):
    """Rows without what a clock measured."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k not in ("seconds", "finished")}
    return [timeless(one) for one in value] if isinstance(value, list | tuple) else value


def table(rows):
    return {row.address: timeless(vars(row)) for row in rows}


def addresses_on_disk(out):
    lines = (out / "results.jsonl").read_text().splitlines()
    return [json.loads(line)["address"] for line in lines]


def wait_until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_processes_give_the_rows_of_this_process(make_suite, tmp_path, capsys, monkeypatch):
    suite = make_suite()  # with candidates, so that later cells depend on the rows of earlier ones
    here = run(suite, tmp_path / "here")
    out = tmp_path / "there"
    lines, add_task = [], Progress.add_task

    def noted(bar, line, **settings):
        lines.append(line)
        return add_task(bar, line, **settings)

    monkeypatch.setattr(Progress, "add_task", noted)
    there = run(suite, out, backend="process", workers=2, progress=True)
    words = [(name, lr) for name in ("ERM", "oracle") for lr in (0.001, 0.01)]
    names = [f"wrong · {name} · lr {lr} · seed 0" for name, lr in words]
    assert lines[0] == "cells" and set(names) < set(lines) and len(lines) == 1 + 6
    assert re.fullmatch(r"6 cells finished .* 6/6 [\d:]+\s*", capsys.readouterr().err)
    assert table(there) == table(here)
    assert sorted(addresses_on_disk(out)) == sorted(table(here))
    assert table(read_rows(out)) == table(here)
    for row in there:
        assert load_run(out / "runs" / row.address).results == row.results
        assert row.results["threads"] == 1
    assert not [*out.glob("runs/*/checkpoint.pt"), *out.glob("cells/*.driver")]


def test_a_cell_that_fails_is_told_at_the_end(tiny, nets, tmp_path, monkeypatch):
    suite = tiny(nets.method("broken", fails=True), nets.method("sound"), seeds=(0,))
    for module in (runner, comparison):
        monkeypatch.setattr(module, "find_suite", lambda name: suite)
    command = ["bench", "run", "tiny", "--out", str(tmp_path / "out"), "--workers", "1"]
    for _ in range(2):
        done = CliRunner().invoke(app, command)
        assert (done.exit_code, type(done.exception)) == (1, SystemExit), done.exception
        assert "broken" in done.output.split("Failed:")[0], done.output  # the table comes first
        assert "Failed: wrong · broken · seed 0: " in done.output
        assert "this net cannot be made" in done.output
        assert "The same command tries these cells again." in done.output
    assert [call[0] for call in nets.calls()] == ["broken", "sound", "broken"]
    assert len(read_rows(tmp_path / "out")) == 1


def test_a_cell_whose_process_is_killed_runs_again(tiny, nets, tmp_path, caplog):
    once, always = nets.method("once", dies=1), nets.method("always", dies=99)
    suite = tiny(once, always, nets.method("sound"), seeds=(0,))
    with caplog.at_level(logging.WARNING):
        rows = run(suite, tmp_path / "out", workers=2)
    assert len(nets.calls("once")) == 2
    assert len(nets.calls("always")) == 1 + backends.RETRIES
    (told,) = caplog.messages
    assert told.startswith("Failed: wrong · always · seed 0: its process died 4 times")
    assert told.endswith(f"exit code {-signal.SIGKILL}")
    expected = run(tiny(once, nets.method("sound"), seeds=(0,)), tmp_path / "here")
    assert table(rows) == table(expected)


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_a_driver_that_is_stopped_goes_on(tiny, nets, tmp_path, ending):
    # Many cells, so that some are left when the signal comes late on a busy machine.
    seeds = range(4)
    suite = tiny(nets.method("a"), nets.method("b"), seeds=seeds, epochs=60)
    expected = table(run(suite, tmp_path / "here"))
    nets.forget()
    out = tmp_path / "out"
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, pickle.dumps(suite).hex(), str(out)],
        stderr=subprocess.PIPE,
        text=True,
    )
    results = out / "results.jsonl"
    # Two cells are done or more, and another one is in the middle of its epochs.
    wait_until(
        lambda: (
            results.exists()
            and any(
                log.read_text().count("\n") > 5
                for log in out.glob("runs/*/log.jsonl")
                if not (log.parent / "results.json").exists()
            )
        )
    )
    driver.send_signal(ending)
    told = driver.communicate(timeout=60)[1]
    pids = {int(call[1]) for call in nets.calls()}
    wait_until(lambda: not any(map(is_alive, pids)), 30)
    finished = addresses_on_disk(out)
    assert 0 < len(finished) < 2 * len(seeds)
    assert list(out.glob("runs/*/checkpoint.pt"))  # its worker saved what it had
    if ending == signal.SIGINT:
        assert "the same command goes on from there" in told
    nets.forget()
    rows = run(suite, out, workers=2)
    assert table(rows) == expected
    assert sorted(addresses_on_disk(out)) == sorted(expected)
    assert len(nets.calls()) == 2 * len(seeds) - len(finished)


class OtherNode(Backend):
    """Runs each job at once as a node without the driver's folder does, or answers for it."""

    def __init__(self, answer=None):
        self.answer, self.done, self.closed = answer, [], False

    def capacity(self):
        return 1

    def submit(self, job):
        job.marker.unlink(missing_ok=True)
        message = job.to_message(threads=1)
        self.done.append((job.address, self.answer or Outcome(**run_job(message))))

    def wait(self, seconds):
        done, self.done = self.done, []
        return done

    def close(self):
        self.closed = True


def test_a_node_without_the_folder_sends_its_files(make_suite, tmp_path, monkeypatch):
    suite = make_suite(methods=(Method(name="ERM"),))
    here = run(suite, tmp_path / "here")
    node = OtherNode()
    monkeypatch.setattr(runner, "open_backend", lambda *_, **__: node)
    out = tmp_path / "out"
    assert table(run(suite, out, backend="ray")) == table(here)
    assert node.closed
    for row in here:
        names = [
            sorted(path.name for path in (place / "runs" / row.address).iterdir())
            for place in (out, tmp_path / "here")
        ]
        assert names[0] == names[1]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Outcome(other_data="0" * 64, where="node 7"), "but node 7 has 000000000000"),
        (Outcome(refused="Expected the driver's code, but no."), "Expected the driver's code"),
    ],
)
def test_a_node_with_other_data_or_code_is_refused(
    make_suite, tmp_path, monkeypatch, answer, words
):
    node = OtherNode(answer)
    monkeypatch.setattr(runner, "open_backend", lambda *_, **__: node)
    with pytest.raises(InvalidSettingError, match=words):
        run(make_suite(), tmp_path / "out", backend="ray")
    assert node.closed
    assert not (tmp_path / "out" / "results.jsonl").exists()


def test_a_worker_compares_code_and_data(tmp_path):
    message = {"code": "rightreasons 0", "config": {}, "threads": 1, "data_sha256": "0" * 64}
    refused = run_job(message)["refused"]
    assert f"on every node, rightreasons 0, but {os.uname().nodename}" in refused
    assert f"has {describe_code()}. Install the same version" in refused
    message |= {"code": describe_code(), "config": {"data": "decoy_digits"}}
    assert len(run_job(message)["other_data"]) == 64
    message["config"] = {"data": "decoy_mnist", "data_dir": str(tmp_path)}
    assert "Expected the driver's data on every node, but on" in run_job(message)["refused"]


def test_a_hash_that_is_out_of_date_is_corrected(tiny, nets, tmp_path):
    suite = tiny(nets.method("a"), seeds=(0,))
    out = tmp_path / "out"
    (row,) = run(suite, out)
    journal = Store(out).data
    for entry in journal.entries():
        journal.append({**entry, "data_sha256": "0" * 64})
    nets.forget()
    assert run(suite, out, workers=1) == [row]
    assert not nets.calls()


def test_wrong_settings_are_told():
    with pytest.raises(InvalidSettingError, match="backend"):
        open_backend("slurm", workers=None, address=None, cpus=None, gpus=0)
    with pytest.raises(InvalidSettingError, match="--address and --gpus with --backend ray alone"):
        open_backend("process", workers=2, address="auto", cpus=None, gpus=0)
    with pytest.raises(InvalidSettingError, match="`workers` to be a whole number from 1"):
        open_backend("process", workers=0, address=None, cpus=None, gpus=0)


def test_ray_is_an_extra(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r'pip install "rightreasons\[ray\]"'):
        open_backend("ray", workers=None, address=None, cpus=None, gpus=0)


def test_an_address_where_nobody_answers_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InvalidSettingError, match=f"Expected a Ray cluster at '{address}'"):
            open_backend("ray", workers=None, address=address, cpus=None, gpus=0)


@pytest.fixture
def two_nodes(monkeypatch):
    """A Ray cluster of two nodes on this machine, with one core each."""
    monkeypatch.setenv("RAY_worker_niceness", "0")
    from ray.cluster_utils import Cluster

    size = {"num_cpus": 1, "object_store_memory": 80_000_000, "include_dashboard": False}
    health = {"health_check_period_ms": 500, "health_check_initial_delay_ms": 500}
    cluster = Cluster(initialize_head=True, head_node_args={**size, "_system_config": health})
    second = cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
    yield cluster, second
    cluster.shutdown()


def test_a_node_that_dies_loses_no_cell(tiny, nets, tmp_path, two_nodes):
    cluster, second = two_nodes
    handler = signal.getsignal(signal.SIGTERM)
    suite = tiny(nets.method("a"), nets.method("b"), seeds=(0, 1, 2))
    expected = run(suite, tmp_path / "here")
    nets.forget()
    nets.pause()
    killed = []

    def kill_node():
        def on_second():
            return [call[0] for call in nets.calls() if call[2] == second.node_id]

        wait_until(on_second)
        cluster.remove_node(second, allow_graceful=False)
        killed.extend(on_second())

    thread = threading.Thread(target=kill_node)
    thread.start()
    rows = run(suite, tmp_path / "out", backend="ray", address=cluster.address)
    thread.join()
    assert killed
    assert signal.getsignal(signal.SIGTERM) is handler  # Ray sets its own
    assert len(nets.calls()) > len(rows)  # one cell was begun twice
    assert table(rows) == table(expected)
    assert sorted(addresses_on_disk(tmp_path / "out")) == sorted(table(expected))
