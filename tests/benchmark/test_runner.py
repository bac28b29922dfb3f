import json
import multiprocessing
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import rightreasons.run.run
from rightreasons.benchmark import (
    Budget,
    Method,
    Variant,
    cell,
    comparison,
    read_rows,
    run_suite,
    runner,
)
from rightreasons.benchmark.cell import row_address
from rightreasons.benchmark.plan import list_lines
from rightreasons.benchmark.store import DataCache, Journal, Store
from rightreasons.cli import app
from rightreasons.datasets import InMemory, Splits
from rightreasons.errors import InvalidSettingError, NonFiniteLossError, UnknownNameError
from rightreasons.run.config import Config
from rightreasons.run.run import load_run, train_run
from rightreasons.types import Batch

CONFIG = Config(data="decoy_digits")


@pytest.fixture
def loads(monkeypatch):
    """Replaces loading by reading a number from data_dir; remembers every load."""
    seen = []

    def load_data(config):
        seen.append((config.data_dir, config.seed))
        number = float(Path(config.data_dir, "number").read_text())
        part = InMemory(Batch(x=torch.full((2, 1), number + config.seed), y=torch.tensor([0, 1])))
        return Splits(part, None, part)

    monkeypatch.setattr(Config, "load_data", load_data)
    return seen


@pytest.fixture
def data_dir(tmp_path):
    folder = tmp_path / "data"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "note").write_text("")
    (folder / "number").write_text("1")
    return folder


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "data.jsonl")


def test_data_are_loaded_once_while_in_use(loads, data_dir, journal):
    cache = DataCache(data_dir, journal)
    data = cache.load(CONFIG)
    assert cache.load(replace(CONFIG, recipe="r3")) is data
    assert cache.digest(CONFIG) == data.digest()
    assert loads == [(str(data_dir), 0)]


def test_one_data_set_is_held_at_a_time(loads, data_dir, journal):
    cache = DataCache(data_dir, journal)
    for seed in (0, 1, 0):
        cache.load(replace(CONFIG, seed=seed))
    assert [seed for _, seed in loads] == [0, 1, 0]
    assert len(journal.entries()) == 2


def test_hashes_are_known_without_loading(loads, data_dir, journal):
    digest = DataCache(data_dir, journal).digest(CONFIG)
    later = DataCache(data_dir, journal)
    assert later.digest(CONFIG) == digest
    assert len(loads) == 1


@pytest.mark.parametrize("what", ["content", "time", "new file", "removed file", "moved"])
def test_a_change_of_the_files_is_noticed(loads, data_dir, journal, what):
    digest = DataCache(data_dir, journal).digest(CONFIG)
    if what == "content":
        (data_dir / "number").write_text("22")
    elif what == "time":
        os.utime(data_dir / "number", ns=(1, 1))
    elif what == "new file":
        (data_dir / "deep" / "more").write_text("")
    elif what == "removed file":
        (data_dir / "deep" / "note").unlink()
    else:
        data_dir = data_dir.rename(data_dir.with_name("elsewhere"))
    later = DataCache(data_dir, journal)
    assert (later.digest(CONFIG) != digest) == (what == "content")
    assert len(loads) == (1 if what == "moved" else 2)


def test_links_to_nothing_do_no_harm(loads, data_dir, journal):
    (data_dir / "link").symlink_to(data_dir / "nothing")
    assert DataCache(data_dir, journal).digest(CONFIG)


def test_what_is_loaded_has_the_last_word(loads, data_dir, journal):
    cache = DataCache(data_dir, journal)
    digest = cache.digest(CONFIG)
    cache = DataCache(data_dir, journal)
    (data_dir / "number").write_text("22")  # while the sweep is under way
    assert cache.digest(CONFIG) == digest
    assert cache.load(CONFIG).digest() == cache.digest(CONFIG) != digest


def test_data_that_need_no_files(tmp_path):
    cache = DataCache(None, Journal(tmp_path / "data.jsonl"))
    assert cache.digest(CONFIG) == CONFIG.load_data().digest()


CHILD = """
import pathlib, time
import torch
from rightreasons.benchmark import cell, run_suite

torch.set_num_threads(1)
calls, train_run = pathlib.Path(out, f"calls-{number}"), cell.train_run

def counted(config, folder, **settings):
    with calls.open("a") as file:
        file.write(f"{folder.name}\\n")
    return train_run(config, folder, **settings)

cell.train_run = counted
pathlib.Path(out, f"ready-{number}").touch()
while not pathlib.Path(out, "go").exists():
    time.sleep(0.01)
run_suite(suite, out=out, accelerator="cpu", progress=False, **part)
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a suite in this process; gives the rows and counts the cells that were really run."""

    def run(suite, *, out=tmp_path / "out", **settings):
        run.cells = []

        def counted(config, folder, **rest):
            run.cells.append(folder.name)
            return train_run(config, folder, **rest)

        monkeypatch.setattr(cell, "train_run", counted)
        return run_suite(suite, out=out, accelerator="cpu", progress=False, **settings)

    return run


@pytest.fixture(scope="module")
def processes():
    """Processes are forked from one that has imported the library, so that they start at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rightreasons.benchmark"])
    return context


@pytest.fixture
def start(processes):
    """Starts processes that run parts of a suite, and lets them begin together."""
    children = []

    def start(suite, out, *, parts=({}, {})):
        out.mkdir()
        for number, part in enumerate(parts):
            names = {"suite": suite, "out": str(out), "number": number, "part": part}
            children.append(processes.Process(target=exec, args=(CHILD, names)))
            children[-1].start()
        wait_until(lambda: len(list(out.glob("ready-*"))) == len(parts), children)
        (out / "go").touch()
        return children

    yield start
    for child in children:
        child.kill()
        child.join()


def wait_until(condition, children):
    deadline = time.monotonic() + 120
    while not condition():
        assert all(child.exitcode in (None, 0) for child in children), "a process ended early"
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


def exit_codes(children):
    for child in children:
        child.join(timeout=120)
    return [child.exitcode for child in children]


def measured(rows):
    return {row.address: row.results["metrics"] for row in rows}


def addresses_on_disk(out):
    lines = (out / "results.jsonl").read_text().splitlines()
    return [json.loads(line)["address"] for line in lines]


def test_a_suite_runs_to_the_end(make_suite, run, tmp_path):
    rows = run(make_suite())
    assert len(rows) == 2 * (2 + 1)
    assert all(row.results["metrics"]["test"]["group_accuracy/worst"] >= 0 for row in rows)
    assert rows == sorted(read_rows(tmp_path / "out"), key=rows.index)
    for row in rows:
        kept = load_run(tmp_path / "out" / "runs" / row.address)
        assert kept.results == row.results
        assert row.address == row_address(kept.config, row.data_sha256)
        assert row.data_sha256 == row.results["data_sha256"]
        assert not (kept.folder / "checkpoint.pt").exists()


def test_the_chosen_candidate_runs_at_every_seed(make_suite, run):
    rows = run(make_suite())
    found = {row.address: row for row in rows}
    for line in list_lines(make_suite(), "small"):
        values = {
            row.config["lr"]: row.results["metrics"]["validation"]["swap_accuracy"]
            for row in rows
            if row.config["seed"] == 0
            and row.config["data_settings"] == line.cell(0, 0).config.data_settings
        }
        later = [
            row
            for row in found.values()
            if row.config["seed"] == 1
            and row.config["data_settings"] == line.cell(0, 1).config.data_settings
        ]
        assert [row.config["lr"] for row in later] == [max(values, key=values.get)]


def test_what_is_finished_is_not_run_again(make_suite, run, monkeypatch):
    rows = run(make_suite())
    monkeypatch.setattr(runner.DataCache, "load", lambda *_: pytest.fail("loaded data"))
    assert run(make_suite()) == rows
    assert run.cells == []


def test_more_of_a_suite_runs_only_what_is_new(make_suite, run):
    run(make_suite())
    more = make_suite(budgets={"small": Budget(seeds=(0, 1, 2), overrides={"epochs": 1})})
    assert len(run(more)) == 8
    assert len(run.cells) == 2


def test_a_suite_can_be_run_in_parts(make_suite, run, tmp_path):
    whole = run(make_suite(), out=tmp_path / "whole")
    part = run(make_suite(), methods=["oracle"])
    assert len(part) == len(run.cells) == 3
    assert {row.config["data_settings"]["oracle"] for row in part} == {True}
    assert measured(run(make_suite())) == measured(whole)
    assert len(run.cells) == 3


def test_a_choice_is_carried_to_another_variant(make_suite, run):
    suite = make_suite(
        variants=(
            Variant(name="few", overrides={"clip": 1.0}, methods=("ERM",), chosen_in="all"),
            Variant(name="all"),
        )
    )
    few = run(suite, variants=["few"])
    candidates = {
        row.config["lr"]: row.results["metrics"]["validation"]["swap_accuracy"] for row in few[:2]
    }
    assert set(candidates) == {1e-3, 1e-2}
    assert [(row.config["clip"], row.config["seed"]) for row in few[2:]] == [(1.0, 0), (1.0, 1)]
    assert {row.config["lr"] for row in few[2:]} == {max(candidates, key=candidates.get)}
    assert len(run(suite)) == 2 + (2 + 1) * 2
    assert len(run.cells) == 4


def test_the_command_line_runs_a_part(make_suite, tmp_path, monkeypatch):
    suite = make_suite(methods=(Method(name="ERM"), Method(name="R3", overrides={"recipe": "r3"})))
    monkeypatch.setattr(runner, "find_suite", lambda name: suite)
    monkeypatch.setattr(comparison, "find_suite", lambda name: suite)
    out = tmp_path / "out"
    part = ["--variant", "wrong", "--method", "R3", "--out", str(out)]
    done = CliRunner().invoke(app, ["bench", "run", "tiny", *part])
    assert done.exit_code == 0
    assert "R3      average" in done.output
    assert {row.config["recipe"] for row in read_rows(out)} == {"r3"}
    wrong = CliRunner().invoke(app, ["bench", "run", "tiny", "--method", "R4", "--out", str(out)])
    assert isinstance(wrong.exception, UnknownNameError)
    assert "Expected a method, but got 'R4'" in str(wrong.exception)


def test_a_number_that_is_not_finite_is_kept_as_null(make_suite, run, monkeypatch, tmp_path):
    suite = make_suite(methods=(Method(name="ERM"),), budgets={"small": Budget(seeds=(0,))})
    evaluate = rightreasons.run.run.evaluate_parts

    def overflowing(*arguments, **settings):
        parts = evaluate(*arguments, **settings)
        return {name: {**part, "swap_accuracy": float("inf")} for name, part in parts.items()}

    monkeypatch.setattr(rightreasons.run.run, "evaluate_parts", overflowing)
    (row,) = run(suite)
    assert row.results["metrics"]["test"]["swap_accuracy"] is None
    assert read_rows(tmp_path / "out") == [row]


def test_suites_share_cells(make_suite, run):
    run(make_suite())
    other = make_suite(name="other", variants=(Variant(name="same under another name"),))
    same = {**other.base, "data_settings": {"test_colours": "wrong"}}
    run(make_suite(name="other", variants=other.variants, base=same))
    assert run.cells == []


def test_other_data_are_another_cell(make_suite, run, monkeypatch):
    suite = make_suite(methods=(Method(name="ERM"),))
    run(suite)
    (old,) = {row.address for row in run(suite)[:1]}
    monkeypatch.setattr(runner.DataCache, "digest", lambda self, config: "f" * 64)
    rows = run(suite)
    assert len(run.cells) == 2
    assert old not in {row.address for row in rows}


def test_a_hash_that_is_out_of_date_is_corrected_before_the_run(make_suite, run, tmp_path):
    suite = make_suite(methods=(Method(name="ERM"),), budgets={"small": Budget(seeds=(0,))})
    run(suite)
    journal = Store(tmp_path / "out").data
    wrong = [{**entry, "data_sha256": "0" * 64} for entry in journal.entries()]
    for entry in wrong:
        journal.append(entry)
    (row,) = run(suite)
    assert row.data_sha256 == row.results["data_sha256"]
    assert run.cells == []


def test_ctrl_c_says_how_to_go_on(make_suite, run, monkeypatch, tmp_path):
    suite = make_suite()
    expected = measured(run(suite, out=tmp_path / "whole"))

    def interrupted(config, folder, **settings):
        if folder.parent.exists() and len(list(folder.parent.iterdir())) == 2:
            raise KeyboardInterrupt
        return train_run(config, folder, **settings)

    monkeypatch.setattr(cell, "train_run", interrupted)
    with pytest.raises(KeyboardInterrupt, match="Stopped. 2 of 6 cells are finished, .*the same"):
        run_suite(suite, out=tmp_path / "out", accelerator="cpu", progress=False)
    assert measured(run(suite)) == expected
    assert len(run.cells) == 4


@pytest.mark.slow
def test_ctrl_c_within_a_cell_goes_on_from_its_checkpoint(make_suite, run, tmp_path):
    suite = make_suite(
        methods=(Method(name="ERM"),),
        budgets={"small": Budget(seeds=(0,), overrides={"epochs": 100})},
    )
    expected = measured(run(suite, out=tmp_path / "whole"))
    out = tmp_path / "out"

    def interrupt():
        wait_until(lambda: any(log.stat().st_size for log in out.glob("runs/*/log.jsonl")), [])
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt, match="Stopped. 0 of 1 cells"):
        run(suite)
    thread.join()
    (checkpoint,) = out.glob("runs/*/checkpoint.pt")
    assert torch.load(checkpoint, weights_only=True)["position"]["epoch"] >= 1
    assert measured(run(suite)) == expected


def test_a_run_that_diverges_is_kept_as_failed(make_suite, run, monkeypatch, tmp_path):
    suite = make_suite(methods=(Method(name="ERM", grid=({"lr": 1e-2}, {"lr": 1e-3})),))

    def diverging(config, folder, **settings):
        if config.lr == 1e-2:
            raise NonFiniteLossError("Expected a finite loss, but got inf.")
        return train_run(config, folder, **settings)

    monkeypatch.setattr(cell, "train_run", diverging)
    rows = run_suite(suite, out=tmp_path / "out", accelerator="cpu", progress=False)
    assert [row.config["lr"] for row in rows] == [1e-2, 1e-3, 1e-3]
    assert [row.failure for row in rows] == ["Expected a finite loss, but got inf.", "", ""]
    assert run(suite) == rows
    assert run.cells == []


def test_a_cell_another_process_is_at_is_waited_for(make_suite, run, tmp_path, monkeypatch):
    suite = make_suite(methods=(Method(name="ERM"),), budgets={"small": Budget(seeds=(0,))})
    (row,) = run(suite, out=tmp_path / "elsewhere")
    store = Store(tmp_path / "out")
    waits = []

    def wait(seconds):
        waits.append(seconds)
        if len(waits) == 2:
            store.add(row)

    monkeypatch.setattr(runner.time, "sleep", wait)
    with store.claim(row.address):
        assert run(suite) == [row]
    assert run.cells == []
    assert len(waits) == 2


def test_a_cell_that_was_finished_while_it_was_claimed_is_not_repeated(
    make_suite, run, tmp_path, monkeypatch
):
    suite = make_suite(methods=(Method(name="ERM"),), budgets={"small": Budget(seeds=(0,))})
    (row,) = run(suite, out=tmp_path / "elsewhere")
    claim = Store.claim

    def late(store, address):
        if address not in store.rows():
            store.add(row)  # the other process wrote its row just before this claim
        return claim(store, address)

    monkeypatch.setattr(Store, "claim", late)
    assert run(suite) == [row]
    assert run.cells == []


def test_a_wrong_setting_is_told_before_anything_runs(make_suite, run, tmp_path):
    grid = ({"settings": {}}, {"settings": {"wieght": 3}})
    with pytest.raises(InvalidSettingError, match="but got wieght"):
        run(make_suite(methods=(Method(name="ERM", grid=grid),)))
    assert run.cells == []


def test_a_wrong_setting_is_told_where_candidates_come_from_elsewhere(make_suite, run):
    few = Variant(name="few", overrides={"settings": {"wieght": 3}}, chosen_in="all")
    with pytest.raises(InvalidSettingError, match="but got wieght"):
        run(make_suite(variants=(Variant(name="all"), few)))
    assert run.cells == []


def test_unknown_names_are_told(run, make_suite):
    with pytest.raises(UnknownNameError, match="Expected a suite, but got 'nonsense'"):
        run("nonsense")
    with pytest.raises(UnknownNameError, match="Expected a budget, but got 'large'"):
        run(make_suite(), budget="large")
    with pytest.raises(UnknownNameError, match="Expected a variant, but got 'rong'"):
        run(make_suite(), variants=["rong"])
    with pytest.raises(UnknownNameError, match="Expected a method, but got 'EMR'"):
        run(make_suite(), methods=["EMR"])


def test_torchrun_is_refused(make_suite, run, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    with pytest.raises(InvalidSettingError, match="Expected a process of its own for a suite"):
        run(make_suite())


def test_a_bar_tells_the_cells(make_suite, tmp_path, capsys):
    suite = make_suite(methods=(Method(name="ERM"),), budgets={"small": Budget(seeds=(0,))})
    run_suite(suite, out=tmp_path / "out", accelerator="cpu", progress=True)
    shown = capsys.readouterr().err
    assert "wrong · ERM · seed 0" in shown
    assert "1/1" in shown


@pytest.mark.slow
def test_two_processes_share_the_work(make_suite, run, start, tmp_path):
    suite = make_suite(budgets={"small": Budget(seeds=(0, 1, 2), overrides={"epochs": 3})})
    expected = measured(run(suite, out=tmp_path / "alone"))
    out = tmp_path / "out"
    children = start(suite, out)
    assert exit_codes(children) == [0, 0]
    assert sorted(addresses_on_disk(out)) == sorted(expected)
    calls = [line for path in out.glob("calls-*") for line in path.read_text().splitlines()]
    assert sorted(calls) == sorted(expected)
    assert measured(read_rows(out)) == expected


@pytest.mark.slow
def test_two_processes_at_two_parts_share_what_both_need(make_suite, run, start, tmp_path):
    suite = make_suite(
        variants=(
            Variant(name="all"),
            Variant(name="few", overrides={"clip": 1.0}, chosen_in="all"),
        ),
        methods=(Method(name="ERM", grid=({"lr": 1e-3}, {"lr": 1e-2})),),
        budgets={"small": Budget(seeds=(0, 1), overrides={"epochs": 3})},
    )
    expected = measured(run(suite, out=tmp_path / "alone"))
    assert len(expected) == 2 + 1 + 2
    out = tmp_path / "out"
    children = start(suite, out, parts=[{"variants": ["all"]}, {"variants": ["few"]}])
    assert exit_codes(children) == [0, 0]
    calls = [line for path in out.glob("calls-*") for line in path.read_text().splitlines()]
    assert sorted(calls) == sorted(addresses_on_disk(out)) == sorted(expected)
    assert measured(read_rows(out)) == expected


@pytest.mark.slow
def test_a_killed_process_leaves_nothing_behind_that_hinders(make_suite, run, start, tmp_path):
    suite = make_suite(
        methods=(Method(name="ERM", grid=({"lr": 1e-3}, {"lr": 1e-2})),),
        budgets={"small": Budget(seeds=(0, 1), overrides={"epochs": 40})},
    )
    expected = measured(run(suite, out=tmp_path / "alone"))
    out = tmp_path / "out"
    (child,) = start(suite, out, parts=[{}])

    def within_the_second_cell():
        return (out / "results.jsonl").exists() and list(out.glob("runs/*/checkpoint.pt"))

    wait_until(within_the_second_cell, [child])
    child.kill()
    assert exit_codes([child]) == [-signal.SIGKILL]
    finished = addresses_on_disk(out)
    assert 0 < len(finished) < len(expected)
    assert measured(run(suite, out=out)) == expected
    assert sorted(run.cells) == sorted(set(expected) - set(finished))
    assert sorted(addresses_on_disk(out)) == sorted(expected)
