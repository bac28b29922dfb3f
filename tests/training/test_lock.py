"""A folder has one writer; a second one is told who that is."""

import os
import signal
import subprocess
import sys
import threading

import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.cli import commands
from rightreasons.datasets import Splits, as_dataset
from rightreasons.errors import InvalidSettingError, OutputError
from rightreasons.run.run import Config, certify_run, train_run
from rightreasons.strategies import JTT
from rightreasons.training.distributed import hold, is_main_process

HOLDER = """
import pathlib, sys, time
from rightreasons.training.distributed import hold

path = pathlib.Path(sys.argv[1])
with hold(path):
    print("held", flush=True)
    time.sleep(60)
"""
CONFIG = Config(
    data="decoy_digits", model="mlp", model_settings={"hidden": [4]}, epochs=1, accelerator="cpu"
)
BATCH = rr.Batch(x=torch.rand(8, 4), y=torch.arange(8) % 2)


@pytest.fixture
def holder():
    """Starts a process that holds a place, and ends it."""
    started = []

    def start(path):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_second_process_is_told_who_writes_to_a_folder(tmp_path, holder):
    process = holder(tmp_path)
    words = f"is in use by process {process.pid} on .+ since 20.+. Wait until it ends, or choose"
    with pytest.raises(OutputError, match=words):
        train_run(CONFIG, tmp_path)
    with pytest.raises(OutputError, match=words):
        rr.fit(nn.Linear(4, 2), rr.recipes.erm(), BATCH, epochs=1, out=tmp_path)
    with pytest.raises(OutputError, match=words):
        data = Splits(as_dataset(BATCH), None, as_dataset(BATCH))
        JTT().fit(nn.Linear(4, 2), rr.recipes.erm(), data, epochs=1, out=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", ".lock.holder"]


def test_a_killed_holder_blocks_nobody(tmp_path, holder):
    process = holder(tmp_path)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with hold(tmp_path):
        assert str(os.getpid()) in (tmp_path / ".lock.holder").read_text()
    assert list(tmp_path.iterdir()) == []


def test_a_run_holds_its_folder_until_it_is_certified(tmp_path, holder):
    run = tmp_path / "run"
    train_run(CONFIG, run)
    holder(run)
    with pytest.raises(OutputError, match=r"run is in use by process \d+"):
        certify_run(run, epsilon=0.1)


def test_annotate_holds_the_file_it_writes(tmp_path, holder, monkeypatch, capsys):
    out = tmp_path / "masks.npz"
    process = holder(out)
    command = ["rightreasons", "annotate", "decoy-digits", "--rest", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", [*command, "--num-annotations", "2"])
    with pytest.raises(SystemExit) as stop:
        commands.main()
    assert stop.value.code == 2
    assert f"masks.npz is in use by process {process.pid}" in capsys.readouterr().err
    with hold(tmp_path / "other.npz"):
        pass


def test_a_lock_is_held_again_by_its_thread_and_by_no_other(tmp_path):
    found = []

    def try_to_hold():
        try:
            with hold(tmp_path):
                found.append("held")
        except OutputError as error:
            found.append(str(error))

    with hold(tmp_path), hold(tmp_path):
        thread = threading.Thread(target=try_to_hold)
        thread.start()
        thread.join()
    try_to_hold()
    assert f"in use by process {os.getpid()}" in found[0]
    assert found[1] == "held"


def test_an_error_frees_the_lock(tmp_path):
    for kind in (ValueError, KeyboardInterrupt):
        with pytest.raises(kind), hold(tmp_path):
            raise kind
    with hold(tmp_path):
        pass


def test_a_holder_that_cannot_be_read_is_another_process(tmp_path, holder):
    holder(tmp_path)
    for text in ("", "[]", "{}", "5"):
        (tmp_path / ".lock.holder").write_text(text)
        with pytest.raises(OutputError, match="is in use by another process"), hold(tmp_path):
            pass


def test_a_folder_that_cannot_be_locked_is_told(tmp_path):
    (tmp_path / ".lock").mkdir()
    with pytest.raises(OutputError, match="cannot be written"), hold(tmp_path):
        pass


@pytest.mark.parametrize(
    ("environment", "main"),
    [({}, True), ({"RANK": "0"}, True), ({"RANK": "1"}, False), ({"LOCAL_RANK": "1"}, False)],
)
def test_one_process_prints(environment, main, monkeypatch):
    for name in ("RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert is_main_process() is main


def test_a_rank_that_is_no_number_is_refused(monkeypatch):
    monkeypatch.setenv("RANK", "abc")
    with pytest.raises(InvalidSettingError, match="environment variable RANK .* got 'abc'. Unset"):
        is_main_process()
