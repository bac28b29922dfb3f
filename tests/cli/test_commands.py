import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from rightreasons.cli import app, commands
from rightreasons.cli.commands import selective_table

TRAIN = ["--data", "decoy-digits", "--model", "mlp", "--set-model", "hidden=[8]", "--epochs", "1"]


def rightreasons(*arguments, **settings):
    """Run the real command, as a user would."""
    command = [sys.executable, "-m", "rightreasons.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **settings)


def in_process(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "run"
    done = in_process("train", *TRAIN, "--recipe", "r3", "--set", "weight=3", "--out", folder)
    assert done.exit_code == 0, done.output
    return folder


def test_train_prints_a_table_and_the_diagnosis(tmp_path):
    done = in_process("train", *TRAIN, "--out", tmp_path / "run")
    assert "worst group" in done.output
    assert "erm" in done.output
    assert "The model" in done.stderr


def test_every_setting_reaches_the_run(run):
    results = json.loads((run / "results.json").read_text())
    assert results["settings"] == {"weight": 3}
    assert results["model_settings"] == {"hidden": [8]}


def test_a_strategy_and_its_settings(tmp_path):
    options = ["--strategy", "random-mask", "--strategy-set", "window=3", "--metrics", "accuracy"]
    done = in_process("train", *TRAIN, *options, "--json", "--out", tmp_path / "run")
    (result,) = json.loads(done.stdout)
    assert result["strategy_settings"] == {"window": 3}


def test_train_json(tmp_path):
    done = in_process("train", *TRAIN, "--metrics", "accuracy", "--json", "--out", tmp_path / "run")
    (result,) = json.loads(done.stdout)
    assert list(result["metrics"]["test"])[0] == "accuracy"


def test_evaluate(run):
    table = in_process("evaluate", run, "--metrics", "accuracy,calibration-error")
    assert "calibration_error" in table.stdout
    values = json.loads(in_process("evaluate", run, "--json").stdout)["metrics"]["test"]
    assert "swap_accuracy" in values
    pair = ["--metrics", "swap_accuracy", "--set-metric", "swap-accuracy.num_draws=1", "--json"]
    once = json.loads(in_process("evaluate", run, *pair).stdout)["metrics"]["test"]
    assert once["swap_accuracy"] != values["swap_accuracy"]
    wrong = in_process("evaluate", run, "--set-metric", "num_draws=1")
    assert "as metric.name=value" in str(wrong.exception)


def test_report(run, tmp_path):
    done = in_process("report", run, "--out", tmp_path / "page.html")
    assert "page.html" in done.stdout
    assert "<html" in (tmp_path / "page.html").read_text()
    again = in_process("report", run, "--out", tmp_path / "page.html", "--json")
    told = json.loads(again.stdout)
    assert told["report"] == str(tmp_path / "page.html")
    assert told["verdict"] in ("good", "mixed", "unclear", "bad")
    assert told["exit_code"] == {"good": 0, "bad": 4}.get(told["verdict"], 3)
    assert told["data"][0]["badge"] in done.stdout
    checked = in_process("report", run, "--out", tmp_path / "page.html", "--check")
    assert checked.exit_code == told["exit_code"]


@pytest.mark.parametrize("kind", ["recipes", "strategies", "metrics", "data", "models", "suites"])
def test_list(kind):
    assert in_process("list", kind).exit_code == 0
    listed = json.loads(in_process("list", kind, "--json").stdout)
    assert all(line for line in listed[kind].values())


def test_bench_list():
    assert "decoy" in in_process("bench", "list").stdout
    assert "decoy" in " ".join(json.loads(in_process("bench", "list", "--json").stdout))


@pytest.mark.parametrize(
    "command", ["", "demo", "train", "evaluate", "certify", "report", "list", "bench"]
)
def test_help_explains(command):
    done = in_process(*command.split(), "--help")
    assert done.exit_code == 0
    assert "Usage" in done.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "--out", "RUN"], "Expected --data NAME, but got none"),
        (["train", "--data", "decoy-digitz", "--out", "RUN"], "Did you mean 'decoy_digits'"),
        (
            ["train", "--data", "src", "--out", "RUN"],
            "images of your own: --data image_folder --data-dir src",
        ),
        (
            ["train", "--data", "pets-tag", "--out", "RUN"],
            "images of your own: --data folder --data-dir DIR",
        ),
        (["train", *TRAIN, "--groups", "site", "--out", "RUN"], "but got groups"),
        (["train", *TRAIN, "--recipe", "r4x", "--out", "RUN"], "Expected a recipe, but got 'r4x'"),
        (["train", *TRAIN, "--set", "weight", "--out", "RUN"], "name=value, but got 'weight'"),
        (["train", *TRAIN, "--set", "weight=[1", "--out", "RUN"], "after =, but got 'weight=[1'"),
        (["train", *TRAIN, "--set", "label_smoothing=x", "--out", "RUN"], "`label_smoothing`"),
        (["train", *TRAIN, "--precision", "foo", "--out", "RUN"], "Lightning Fabric knows"),
        (["train", *TRAIN, "--devices", "0", "--out", "RUN"], "`devices` to be a whole number"),
        (["train", "--resume", "--epochs", "9", "--out", "RUN"], "but got --epochs. Leave"),
        (["evaluate", "RUN"], "it has no config.yaml"),
        (
            ["evaluate", "--model", "net.py:make", "--data", "folder"],
            "got a model. Make a run of it: rightreasons adopt --model",
        ),
        (["explain", "--weights=w.pt"], "Then: rightreasons explain RUN."),
        (["data", "check", "RUN"], "Name the folder that has data.csv, or a folder for each"),
        (["certify", "RUN", "--full-range"], "it has no config.yaml"),
        (["certify", "RUN"], "Expected exactly one of --epsilon E and --full-range"),
        (["report", "RUN"], "it has no config.yaml"),
        (["list", "recipe"], "Did you mean 'recipes'"),
        (["bench", "show", "decoy-mnist", "--out", "RUN"], "it has no results.jsonl"),
        (["bench", "run", "r4", "--out", "RUN"], "Expected a suite, but got 'r4'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments, words, tmp_path, monkeypatch, capsys):
    arguments = [str(tmp_path / "run") if word == "RUN" else word for word in arguments]
    monkeypatch.setattr(sys, "argv", ["rightreasons", *arguments])
    with pytest.raises(SystemExit) as stop:
        commands.main()
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("Error: ")
    assert words in error
    assert error.count("\n") == 1


def test_a_wrong_option_is_answered_by_the_command_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["rightreasons", "train", "--epochs", "many"])
    with pytest.raises(SystemExit) as stop:
        commands.main()
    assert stop.value.code == 2
    assert "--epochs" in capsys.readouterr().err


@pytest.mark.slow
def test_the_installed_command_fails_politely(tmp_path):
    done = rightreasons("train", "--data", "nothing", "--out", tmp_path / "run")
    assert done.returncode == 2
    assert done.stderr.startswith("Error: Expected a data set, but got 'nothing'.")
    assert "Traceback" not in done.stderr


def test_a_run_can_be_resumed_and_measured_with_smaller_passes(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    done = in_process("train", "--resume", "--max-rows", "64", "--out", tmp_path / "run", "--json")
    assert done.exit_code == 0, done.output
    (resumed,) = json.loads(done.stdout)
    assert resumed["training"]["max_rows"] == 64
    before = json.loads((run / "results.json").read_text())["metrics"]["test"]
    assert resumed["metrics"]["test"] == pytest.approx(before, rel=1e-4)
    done = in_process("evaluate", run, "--metrics", "accuracy", "--max-rows", "0")
    assert done.exit_code == 2


@pytest.mark.slow
def test_ctrl_c_saves_says_how_to_resume_and_resumes(tmp_path):
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "rightreasons.cli", "train", "--data", "decoy-digits"]
    command += ["--epochs", "100000", "--batch-size", "500", "--out", str(folder)]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    log, deadline = folder / "log.jsonl", time.monotonic() + 120
    while not (log.exists() and log.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert process.returncode == 130
    assert f"saved in {folder / 'checkpoint.pt'}" in error
    assert "--resume" in error
    assert "Traceback" not in error
    assert (folder / "checkpoint.pt").exists()


def line(**changes):
    known = {"coverage": 0.9, "threshold": 1.5, "realised": 0.91, "error": 0.04}
    return {**known, "worst_group": None, **changes}


def test_rows_are_lines_and_worst_groups_are_shown_where_known():
    everything = line(coverage=1.0, threshold=None, realised=1.0)
    columns, rows = selective_table({"score": "logit", "lines": [everything, line(error=None)]})
    assert columns == ["target coverage", "realised", "error", "threshold (logit)"]
    assert rows[0] == ["1.0000", "1.0000", "0.0400", "answers all"]
    assert rows[1] == ["0.9000", "0.9100", "-", "1.5000"]
    columns, rows = selective_table({"score": "logit", "lines": [line(worst_group=0.5), line()]})
    assert columns[3] == "worst group's error"
    assert [row[3] for row in rows] == ["0.5000", "-"]


def test_a_threshold_of_log_odds_is_shown_as_a_probability():
    columns, rows = selective_table({"score": "softmax", "lines": [line(threshold=1.97)]})
    assert (columns[-1], rows[0][-1]) == ("threshold (softmax)", "0.8776")


def test_the_version_is_printed_and_a_strategy_is_not_taken_for_a_recipe(tmp_path):
    assert in_process("--version").output.startswith("rightreasons 0.")
    words = "Expected a recipe, but 'masktune' is a strategy. Use --strategy masktune"
    done = in_process("train", *TRAIN, "--recipe", "masktune", "--out", tmp_path)
    assert words in str(done.exception)
