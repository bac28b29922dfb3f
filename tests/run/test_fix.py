"""A repair: what fits is tried, validation data decide, and a kill costs nothing."""

import importlib
import json
import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.faults.commands import Process
from tests.tagged_pictures import pictures
from torch import nn
from typer.testing import CliRunner

import rightreasons as rr
from rightreasons.annotators.mask_files import write_masks
from rightreasons.benchmark.cell import Outcome, describe_code, run_job
from rightreasons.cli import app
from rightreasons.errors import (
    CheckpointMismatchError,
    DatasetNotFoundError,
    InvalidSettingError,
    MissingExtraError,
)
from rightreasons.run import Config, methods, train_run
from rightreasons.run.methods import Facts, choose_methods, find_facts
from rightreasons.run.search import Clock, Search, parse_duration
from rightreasons.run.selection import measure_exchange
from rightreasons.run.shortcuts import ColourExchanged, find_growth, with_masks
from rightreasons.run.trials import Trials

pytestmark = pytest.mark.usefixtures("one_thread")

FACTS = Facts(
    is_image=True,
    masks="none",
    colour=False,
    groups=False,
    validation_groups=False,
    validation_masks=False,
    certificate=False,
)


COUNTER = ["counterexamples", "counterexamples_anew"]


def splits(*, change=lambda batch: batch, test=lambda batch: batch, **settings):
    """Tagged pictures in three parts; the tag tells the class in all but the test data."""
    train, val = (change(pictures(160, seed=seed, **settings)) for seed in (0, 1))
    random_tags = pictures(160, seed=2, **{**settings, "tag": 0.0})
    card = rr.datasets.Card(valid_range=(0.0, 2.0))
    parts = (train, val, test(change(random_tags)))
    return rr.datasets.Splits(*[rr.datasets.InMemory(part, card) for part in parts])


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A run whose model reads the tag."""
    folder = tmp_path_factory.mktemp("start") / "erm"
    config = Config(
        data="decoy_digits",
        model="mlp",
        model_settings={"hidden": [8]},
        epochs=8,
        lr=0.01,
        accelerator="cpu",
    )
    train_run(config, folder, data=splits(), progress=False)
    return folder


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """The number of epochs does not follow the machine."""
    monkeypatch.setattr(Trials, "_affordable_epochs", lambda self, turn: 3)


def without(*names):
    return lambda batch: batch.replace(**dict.fromkeys(names))


fix = partial(rr.fix, budget="2m", num_trials=2, progress=False)


def test_the_first_method_repairs_the_model_and_its_own_code_loads_it(tmp_path):
    data = splits()
    (tmp_path / "net.py").write_text(
        "from torch import nn\n"
        "def make(): return nn.Sequential(nn.Flatten(), nn.Linear(144, 8), nn.ReLU(), "
        "nn.Linear(8, 2))\n"
    )
    config = Config(
        data="decoy_digits",
        model=f"{tmp_path / 'net.py'}:make",
        model_settings={"mean": [0.3], "deviation": [0.5]},
        epochs=6,
        lr=0.01,
        accelerator="cpu",
    )
    train_run(config, tmp_path / "run", data=data, progress=False)
    kept = load_file(tmp_path / "run" / "model.safetensors")
    net = nn.Sequential(nn.Flatten(), nn.Linear(144, 8), nn.ReLU(), nn.Linear(8, 2))
    net.load_state_dict({n.removeprefix("net."): v for n, v in kept.items() if "net." in n})
    torch.save(nn.DataParallel(net).state_dict(), tmp_path / "net.pt")
    config = replace(config, weights=str(tmp_path / "net.pt"))
    fixed = fix(config, tmp_path / "out", data=data)
    assert fixed["verdict"] == "fixed" and fixed["selected_by"] == "worst_swap"
    tried = [row["method"] for row in _tried(tmp_path / "out")]
    assert tried == ["counterexamples", "counterexamples_anew"]
    assert fixed["chosen"]["values"]["score"] > fixed["original"]["score"] + 0.1
    assert "Trial 0, counterexamples, takes the accuracy on validation samples" in fixed["sentence"]
    (row,) = fixed["shortcuts"]
    assert row["before"]["cost"] > 0.2 > 0.1 > row["after"]["cost"]
    weights = load_file(tmp_path / "out" / "model.safetensors")
    assert weights.keys() == torch.load(tmp_path / "net.pt", weights_only=True).keys()
    nn.DataParallel(net).load_state_dict(weights)
    run = json.loads((tmp_path / "out" / fixed["runs"]["after"] / "results.json").read_text())
    scaled = net((data.test.batch.x - 0.3) / 0.5).argmax(dim=1)
    right = float((scaled == data.test.labels).double().mean())
    assert run["metrics"]["test"]["accuracy"] == pytest.approx(right)


def _tried(folder):
    return json.loads((folder / "tried.json").read_text())["trials"]


def test_test_data_take_no_part_in_the_choice(start, tmp_path):
    def poison(batch):
        return batch.replace(x=torch.rand_like(batch.x), y=1 - batch.y)

    chosen = {}
    for name, data in (("clean", splits()), ("poisoned", splits(test=poison))):
        fixed = fix(start, tmp_path / name, data=data, num_trials=3)
        chosen[name] = {**fixed["chosen"], "seconds": 0}
        rows = [{**row, "seconds": 0} for row in _tried(tmp_path / name)]
        chosen[name]["rows"] = rows
    assert chosen["clean"] == chosen["poisoned"]
    before = [
        json.loads((tmp_path / name / "before" / "results.json").read_text())["metrics"]["test"]
        for name in chosen
    ]
    assert before[0] != before[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_killed_three_times_no_trial_is_lost_or_repeated(tmp_path):
    """SIGKILL, three times; the end is that of a repair that nobody disturbed."""
    importlib.import_module("optuna")  # here, so that forks need not
    words = "--data decoy_digits --model mlp --set-model hidden=[8] --metrics accuracy --json"
    words += " --trials 4 --budget 5m"
    config = Config(data="decoy_digits", model="mlp", model_settings={"hidden": [8]}, epochs=2)
    train_run(config, tmp_path / "run", progress=False)
    command = ["fix", *words.split(), "--weights", str(tmp_path / "run" / "model.safetensors")]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    ended = Process([*command, "--out", str(whole)], tmp_path / "log").finish()
    assert ended.code == 0, ended.text
    clock, spent = killed / "clock.json", []
    # In the first trial, after an epoch of the second, and before the journal knows of the third.
    for sign in ("000-*/config.yaml", "001-*/log.jsonl", "002-*/trial.json"):
        process = Process([*command, "--out", str(killed)], tmp_path / "log")
        while not any(killed.glob(f"trials/{sign}")):
            assert process.wait(0.001) is None, process.ended
        assert process.stop(signal.SIGKILL).code == -signal.SIGKILL
        spent.append(json.loads(clock.read_text())["spent"])
    ended = Process([*command, "--out", str(killed)], tmp_path / "log").finish()
    assert ended.code == 0, ended.text
    again, once = ([{**row, "seconds": 0} for row in _tried(folder)] for folder in (killed, whole))
    assert [row["number"] for row in again] == [0, 1, 2, 3]
    assert again == once  # the same trials, with the same values to the bit
    assert len({json.dumps([row["method"], row["settings"], row["lr"]]) for row in again}) == 4
    for folder in (whole, killed):
        told = json.loads((folder / "fixed.json").read_text())
        assert told["budget"]["spent"] < told["budget"]["seconds"]
        assert told["num_trials"] == 4
    spent.append(json.loads(clock.read_text())["spent"])
    assert spent == sorted(set(spent))  # each start adds to what those before it took
    one, two = (load_file(folder / "model.safetensors") for folder in (whole, killed))
    assert all(torch.equal(one[name], two[name]) for name in one)
    # Two at once, in processes of their own. The driver is killed while both trials of a round run.
    command, both = [*command, "--workers", "2"], tmp_path / "both"
    process = Process([*command, "--out", str(both)], tmp_path / "log")
    while len([*both.glob("trials/*/log.jsonl")]) < 2:
        assert process.wait(0.001) is None, process.ended
    assert process.stop(signal.SIGKILL).code == -signal.SIGKILL
    assert not (both / "tried.json").exists() or len(_tried(both)) < 4
    ended = Process([*command, "--out", str(both)], tmp_path / "log").finish()
    assert ended.code == 0, ended.text
    assert [{**row, "seconds": 0} for row in _tried(both)] == once
    two = load_file(both / "model.safetensors")
    assert all(torch.equal(one[name], two[name]) for name in one)


class Here:
    """Workers that answer at once, one after the other, by what `run_job` gives or is told."""

    def __init__(self, size=2, **answer):
        self.size, self.answer, self.sent, self.done = size, answer, [], []

    def capacity(self):
        return self.size

    def submit(self, job):
        self.sent.append(job.address)
        message = {**job.to_message(threads=1), "code": describe_code()}
        self.done.append((job.address, Outcome(**(self.answer or run_job(message)))))

    def wait(self, seconds):
        done, self.done = self.done, []
        return done[::-1]  # the last comes first


def test_rounds_do_not_depend_on_which_trial_ends_first(tmp_path, monkeypatch):
    monkeypatch.setattr(Trials, "_affordable_epochs", lambda self, turn: 1)
    config = Config(data="decoy_digits", model="mlp", model_settings={"hidden": [8]}, epochs=1)
    train_run(config, tmp_path / "run", progress=False)
    rows, events = {}, []
    begin, end = Search._begin, Search.end
    monkeypatch.setattr(Search, "_begin", lambda self: (events.append("begin"), begin(self))[1])
    monkeypatch.setattr(Search, "end", lambda *told: (events.append("end"), end(*told))[1])
    for name, pool in (("here", None), ("pool", Here(3))):
        out = tmp_path / name
        events.clear()
        fix(tmp_path / "run", out, num_trials=5, pool=pool)
        rows[name] = [{**row, "seconds": 0} for row in _tried(out)]
    assert [row["number"] for row in rows["pool"]] == [0, 1, 2, 3, 4]
    assert rows["pool"][:4] == rows["here"][:4]  # the first of each method
    assert events == [*["begin"] * 3, *["end"] * 3, *["begin"] * 2, *["end"] * 2]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"refused": "Expected the driver's code on every node, but no."}, "the driver's code"),
        ({}, "Expected the driver's data for decoy_digits in every worker"),
    ],
)
def test_workers_with_other_code_or_data_are_refused(start, tmp_path, answer, words):
    with pytest.raises(InvalidSettingError, match=words):
        fix(start, tmp_path, data=splits(), pool=Here(**answer))
    assert not any(tmp_path.glob("trials/*/trial.json"))


def test_a_trial_whose_worker_died_has_failed(start, tmp_path):
    fixed = fix(start, tmp_path, data=splits(), pool=Here(error="its process died 4 times"))
    assert [row["reason"] for row in _tried(tmp_path)] == ["its process died 4 times"] * 2
    assert fixed["verdict"] == "no trial"


def test_a_trial_that_would_overrun_is_stopped_and_recorded(start, tmp_path, monkeypatch):
    monkeypatch.setattr(Trials, "_affordable_epochs", lambda self, turn: 100_000)
    asked = []

    def remaining(clock):
        """The time is up when it was asked for the fiftieth time, on machines of any speed."""
        asked.append(clock.spent)
        return 60.0 if len(asked) < 50 else 0.0

    with monkeypatch.context() as patched:
        patched.setattr(Clock, "remaining", property(remaining))
        fixed = fix(start, tmp_path, data=splits(), num_trials=9)
    (row,) = _tried(tmp_path)
    assert (row["state"], row["reason"]) == ("stopped", "the budget was used up")
    assert fixed["verdict"] == "no trial" and "Give more time with --budget" in fixed["sentence"]
    assert not (tmp_path / "model.safetensors").exists()
    assert len(asked) == 51  # in the next pass it stops, and begins no other trial
    monkeypatch.setattr(Trials, "_affordable_epochs", lambda self, turn: 3)
    more = fix(start, tmp_path, data=splits(), num_trials=2)  # with more time it goes on
    assert more["verdict"] == "fixed" and [row["number"] for row in _tried(tmp_path)] == [0, 1]


def test_nothing_that_costs_too_much_accuracy_is_chosen(start, tmp_path, monkeypatch):
    monkeypatch.setattr(rr.run.selection.Judge, "keeps", lambda *values: False)
    fixed = fix(start, tmp_path, data=splits(), num_trials=1)
    assert fixed["verdict"] == "not kept" and fixed["weights"] is None
    assert fixed["sentence"].startswith("Nothing kept the validation accuracy that the original")


def test_accuracy_may_fall_by_the_tolerance_and_by_what_the_shortcut_gave():
    judge = rr.run.selection.Judge(splits().val, "worst_swap", replace(FACTS, masks="all"))
    original = {"accuracy": 0.95, "honest": 0.85}
    assert judge.keeps({"accuracy": 0.84, "honest": 0.84}, original, 0.02)
    assert not judge.keeps({"accuracy": 0.82, "honest": 0.82}, original, 0.02)


def test_two_shortcuts_and_the_one_that_removing_the_other_feeds(tmp_path, monkeypatch):
    """Both tell the class; the model reads the tag first."""
    monkeypatch.setattr(Trials, "_affordable_epochs", lambda self, turn: 20)

    def stripe(batch):
        mask = torch.zeros_like(batch.mask)
        mask[:, :, 10:, 4:] = 1
        return batch.replace(mask=mask)

    settings = {"core": 0.15, "hidden": 0.25}
    data, other = splits(**settings), splits(change=stripe, **settings)
    for name, one in (("tag", data), ("stripe", other)):
        for part in ("train", "val", "test"):
            write_masks(tmp_path / name / f"{part}.npz", getattr(one, part))
    config = Config(
        data="decoy_digits", model="mlp", model_settings={"hidden": [8]}, epochs=8, lr=0.01
    )
    train_run(config, tmp_path / "run", data=data, progress=False)
    plain = splits(change=without("mask", "annotated"), **settings)
    tag, both = str(tmp_path / "tag"), str(tmp_path / "stripe")
    once = fix(
        tmp_path / "run", tmp_path / "one", data=plain, masks=[tag], watch=[both], num_trials=1
    )
    rows = {row["name"]: row for row in once["shortcuts"]}
    assert rows["tag"]["fixed"] and not rows["stripe"]["fixed"]
    assert rows["tag"]["after"]["cost"] < 0.1 < rows["tag"]["before"]["cost"]
    assert rows["stripe"]["after"]["cost"] > rows["stripe"]["before"]["cost"] + 0.05
    (warning,) = once["warnings"]
    assert warning.startswith("Removing tag feeds stripe: exchanging it costs")
    twice = fix(tmp_path / "run", tmp_path / "two", data=plain, masks=[tag, both], num_trials=1)
    assert [row["name"] for row in twice["shortcuts"]][2:] == ["all of these at once"]
    assert all(row["after"]["cost"] < 0.1 for row in twice["shortcuts"])
    assert not twice["warnings"]


def test_growth_within_the_interval_is_no_warning():
    before, after = ({"cost": c, "low": c - 0.1, "high": c + 0.1} for c in (0.1, 0.2))
    row = {"name": "tag", "fixed": False, "before": before, "after": after}
    assert find_growth([row]) == []
    assert find_growth([row | {"after": None}]) == []


def test_colours_of_another_image_at_each_epoch():
    x = torch.rand(4, 3, 5, 5) * torch.rand(4, 3, 1, 1)
    data = rr.datasets.InMemory(rr.Batch(x=x, y=torch.zeros(4).long()))
    exchanged = ColourExchanged(data)
    rows = torch.arange(4)
    assert torch.equal(exchanged.take(rows).x, x)
    first, second = (exchanged.at_epoch(epoch).take(rows).x for epoch in (0, 1))
    assert not torch.equal(first, second)
    for row in range(4):  # the slow twin: the moments are those of one other image
        mean = first[row].clamp(0, 1).mean(dim=(1, 2))
        others = [float((x[other].mean(dim=(1, 2)) - mean).abs().max()) for other in rows]
        assert min(others) < 0.02 and others[row] > 0.02


def test_shortcuts_of_another_class_show_what_a_mean_over_both_hides():
    data = splits(core=0.0, noise=0.0).val
    tag = nn.Sequential(nn.Flatten(), nn.Linear(144, 2))
    with torch.no_grad():
        tag[1].weight.zero_()
        tag[1].weight[1, :3] = 1.0
        tag[1].bias.copy_(torch.tensor([1.0, 0.0]))
    judge = rr.run.selection.Judge.for_data(
        tag, data, replace(FACTS, masks="all", validation_masks=True), epsilon=None
    )
    values = judge.measure(tag)
    assert values["accuracy"] == 1.0 and 0.4 < values["swap_accuracy"] < 0.6
    assert values["score"] == values["worst_swap"] == 0.0
    tinted = rr.Batch(x=torch.rand(6, 3, 4, 4) * 0.1, y=torch.arange(6) % 2)
    tinted.x[:, 0] += 0.8 * tinted.y[:, None, None]
    other = ColourExchanged(rr.datasets.InMemory(tinted), always=True, across=True)
    reds = other.take(torch.arange(6)).x[:, 0].mean(dim=(1, 2))
    assert torch.equal((reds > 0.4).long(), 1 - tinted.y)


def test_a_colour_that_tells_the_class_is_exchanged_away(tmp_path):
    def tint(batch):
        x = batch.x.expand(-1, 3, -1, -1).clone() * 0.5
        x[:, 0] += 0.3 * batch.y[:, None, None]
        return rr.Batch(x=x, y=batch.y)

    data = splits(change=tint, tag=0.0, core=0.3)
    config = Config(
        data="decoy_digits", model="mlp", model_settings={"hidden": [8]}, epochs=5, lr=0.01
    )
    train_run(config, tmp_path / "run", data=data, progress=False)
    fixed = fix(tmp_path / "run", tmp_path / "out", data=data, masks=["colour"], num_trials=1)
    (row,) = fixed["shortcuts"]
    assert fixed["chosen"]["method"] == "colours" and row["name"] == "colour"
    assert row["before"]["cost"] > 0.3 and row["after"]["cost"] < 0.1


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"masks": "all"}, [*COUNTER, "r3", "adv_r4"]),
        ({"masks": "few", "groups": True}, [*COUNTER, "r3", "adv_r4", "group_dro", "dfr"]),
        ({"masks": "all", "certificate": True}, [*COUNTER, "ibp_ex", "cert_r4"]),
        ({"groups": True}, ["group_dro", "dfr"]),
        ({"colour": True}, ["colours", "colours_anew"]),
        ({}, ["masktune", "jtt"]),
        ({"is_image": False}, ["jtt"]),
    ],
)
def test_methods_follow_what_there_is(changes, names):
    assert [method.name for method in choose_methods(replace(FACTS, **changes))] == names


def grouped(batch):
    """Four groups, known in every part: the tag is wrong in a quarter of the samples."""
    wrong = torch.arange(len(batch)) % 8 < 2
    x = batch.x.clone()
    x[:, :, :3, :3] = ((batch.y == 1) ^ wrong).float()[:, None, None, None]
    group = 2 * batch.y + wrong.long()
    return rr.Batch(x=x, y=batch.y, group=group)


NETS = """
from torch.nn import AdaptiveAvgPool2d, Conv2d, Flatten, Linear, ReLU, Sequential
def net(): return Sequential(Flatten(), Linear(144, 8), ReLU(), Linear(8, 2))
def table(): return Linear(20, 2)
def cnn(): return Sequential(
    Conv2d(1, 4, 3), ReLU(), AdaptiveAvgPool2d(4), Flatten(), Linear(64, 2)
)
"""


def rows_of_a_table(batch):
    table = batch.x.flatten(1)[:, :20], batch.mask.flatten(1)[:, :20]
    return rr.Batch(x=table[0], y=batch.y, mask=table[1])


@pytest.mark.parametrize(
    ("change", "tried", "by"),
    [
        (grouped, ["group_dro", "dfr"], "worst_group"),
        (without("mask", "annotated", "group"), ["masktune", "jtt"], "covered_accuracy"),
        (rows_of_a_table, ["counterexamples", "counterexamples_anew"], "worst_swap"),
    ],
)
def test_groups_tables_and_nothing_at_all(change, tried, by, tmp_path):
    data = splits(change=change)
    (tmp_path / "net.py").write_text(NETS)
    net = {"worst_group": "net", "covered_accuracy": "cnn", "worst_swap": "table"}[by]
    model = f"{tmp_path / 'net.py'}:{net}"
    config = Config(data="decoy_digits", epochs=2, lr=0.01, accelerator="cpu", model=model)
    train_run(config, tmp_path / "run", data=data, progress=False)
    fixed = fix(tmp_path / "run", tmp_path / "out", data=data)
    rows = _tried(tmp_path / "out")
    assert [(row["method"], row["state"]) for row in rows] == [(n, "finished") for n in tried]
    assert fixed["selected_by"] == by


def test_few_masks_are_completed_first(start, tmp_path, monkeypatch):
    quick = partial(rr.annotators.PseudoAnnotator, width=4, depth=1, num_updates=30)
    monkeypatch.setattr(methods, "PseudoAnnotator", quick)
    data = rr.datasets.mask_count(splits(), num_masks=20)
    fixed = fix(start, tmp_path, data=data, num_trials=1)
    told = json.loads((tmp_path / "masks" / "quality.json").read_text())
    assert (told["num_annotations"], told["num_predicted"]) == (20, 140)
    assert told["held_out"]["num_masks"] == 160  # validation data have masks by hand
    assert fixed["facts"]["masks"] == "all" and fixed["num_trials"] == 1


def test_a_certificate_decides_where_one_is_asked_for(start, tmp_path):
    fixed = fix(start, tmp_path, data=splits(), certificate="full", num_trials=3)
    assert fixed["selected_by"] == "certified"
    assert [row["method"] for row in _tried(tmp_path)] == [*COUNTER, "ibp_ex"]
    assert (tmp_path / "before" / "certificate.json").exists()


def test_other_settings_are_refused_in_the_same_folder(start, tmp_path):
    fix(start, tmp_path, data=splits(), num_trials=1)
    with pytest.raises(CheckpointMismatchError, match="as it was begun, but these differ: keep_a"):
        fix(start, tmp_path, data=splits(), num_trials=1, keep_accuracy=5)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"budget": "soon"}, InvalidSettingError, "Expected `budget` as a time such as 30m"),
        ({"keep_accuracy": -1}, InvalidSettingError, "Expected `keep_accuracy` to be points from"),
        ({"certificate": "big"}, InvalidSettingError, "Expected `certificate` to be a distance"),
        ({"masks": ["nowhere"]}, DatasetNotFoundError, "Expected a folder with masks at .*nowhere"),
        ({"masks": ["."]}, InvalidSettingError, "Expected to know what is white in the masks of"),
    ],
)
def test_mistakes_are_found_before_training(settings, error, words, start, tmp_path):
    with pytest.raises(error, match=words):
        fix(start, tmp_path / "out", data=splits(), **settings)
    assert not (tmp_path / "out" / "trials").exists()


def test_data_that_cannot_decide_are_refused(start, tmp_path):
    data = splits()
    no_val = replace(data, val=None)
    with pytest.raises(InvalidSettingError, match="Expected validation data to choose a repair by"):
        fix(start, tmp_path / "a", data=no_val)
    plain = splits(change=without("mask", "annotated", "group"))
    with pytest.raises(InvalidSettingError, match="Expected masks for a certificate"):
        fix(start, tmp_path / "b", data=plain, certificate="full")
    words = rr.Batch(x=torch.ones(4, 3).long(), y=torch.tensor([0, 1, 0, 1]))
    text = rr.datasets.Splits(*[rr.datasets.InMemory(words)] * 3)
    with pytest.raises(InvalidSettingError, match="Expected images or tables of numbers"):
        find_facts(text, colour=False, certificate=False)
    half = replace(data, val=plain.val)
    with pytest.raises(InvalidSettingError, match="Expected masks or at least 10 samples of every"):
        fix(start, tmp_path / "c", data=half)


def test_without_optuna_the_error_says_what_to_install(start, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r'pip install "rightreasons\[fix\]"'):
        fix(start, tmp_path, data=splits())


def test_the_clock_adds_up_over_starts(tmp_path):
    path = tmp_path / "clock.json"
    path.write_text(json.dumps({"spent": 5.0, "began": 1000.0}))
    os.utime(path, (1003.0, 1003.0))  # killed after three seconds
    with Clock(path, 10.0) as clock:
        assert 8.0 <= clock.spent < 8.5 and 1.5 < clock.remaining <= 2.0
    assert parse_duration("1h 1m 1.5s") == 3661.5


def test_masks_from_files_are_joined_and_named(tmp_path):
    data = splits()
    for part in ("train", "val"):
        write_masks(tmp_path / "soft" / f"{part}.npz", getattr(data, part))
    (tmp_path / "soft" / "masks.json").write_text('{"name": "the tag", "complete": true}')
    plain = splits(change=without("mask", "annotated"))
    found = rr.run.shortcuts.read_shortcuts([str(tmp_path / "soft"), "colour"])
    assert [one.name for one in found] == ["the tag", "colour"]
    masked = with_masks(plain, found)
    rows = torch.arange(20)
    assert torch.equal(masked.val.take(rows).mask, data.val.take(rows).mask)
    assert not masked.test.has_masks
    model = nn.Sequential(nn.Flatten(), nn.Linear(144, 2))
    lost = measure_exchange(model, masked.val, masks=True, colour=True)
    assert lost.low <= lost.cost <= lost.high
    (tmp_path / "soft" / "masks.json").write_text("{")
    with pytest.raises(rr.errors.DatasetCorruptError, match="to be JSON about the masks"):
        rr.run.shortcuts.read_shortcuts([str(tmp_path / "soft")])
    assert Path(found[0].path).name == "soft"


def test_the_command_needs_a_run_or_data(tmp_path):
    done = CliRunner().invoke(app, ["fix", "--out", str(tmp_path / "out")])
    assert "Expected the folder of a run, or --data with --model" in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_steps_of_the_rate_keep_their_share_of_training():
    start = Config(data="decoy_digits", recipe="erm", epochs=4, lr=0.01, scheduler="step")
    method = methods.Method("erm", changes={})
    trial = partial(methods.configure, method=method, values={"lr": 0.002}, epochs=100)
    moved = trial(replace(start, milestones="2,3", body_lr=1e-3))
    assert (moved.milestones, moved.body_lr) == ("50,75", pytest.approx(2e-4))
    assert trial(replace(start, step_epochs=1)).step_epochs == 25
    few = methods.configure(
        replace(start, milestones="1,2"), method, {"lr": 0.01}, epochs=2, first_weights=None
    )
    assert few.milestones == "1"


def test_a_repair_trains_in_one_process(tmp_path):
    """Each process had a clock of its own, so that they waited for each other for ever."""
    data = splits()
    config = Config(data="mine", recipe="erm", model="mlp", epochs=1, batch_size=64)
    train_run(config, tmp_path / "run", data=data, progress=False)
    written = (tmp_path / "run" / "config.yaml").read_text()
    (tmp_path / "run" / "config.yaml").write_text(written.replace("devices: 1", "devices: 2"))
    read = importlib.import_module("rightreasons.run.fix")._read_start
    assert read(tmp_path / "run")[0].devices == 1
    assert read(replace(config, devices=2))[0].devices == 1
