"""Whatever stands on the command line: a sentence and exit code 2, no traceback."""

import sys

import pytest

from rightreasons.cli import commands
from rightreasons.cli.options import print_result
from rightreasons.core.progress import live_bar, progress

DIGITS, LONG = "9" * 40, "x" * 5000
TRAIN = ["train", "--data", "decoy-digits", "--out", "run"]
R3 = [*TRAIN, "--recipe", "r3"]


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["rightreasons", *arguments])
        with pytest.raises(SystemExit) as stop:
            commands.main()
        assert not [path for path in tmp_path.iterdir() if path.name not in ("run", "r")]
        return stop.value.code, " ".join(capsys.readouterr().err.split())

    return call


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*TRAIN, "--epochs", DIGITS], "Expected `epochs` below 4611686018427387904"),
        ([*TRAIN, "--seed", DIGITS], "Expected `seed` below 4611686018427387904"),
        ([*TRAIN, "--devices", DIGITS], "Expected `devices` below 4611686018427387904"),
        ([*TRAIN, "--set", "self=1"], "Expected settings of the recipe 'erm' among"),
        ([*TRAIN, "--set-strategy", "self=1"], "Expected settings of the strategy 'once' among"),
        ([*TRAIN, "--set-data", "name=1"], "Expected `data_settings` without name"),
        ([*TRAIN, "--set-data", "data_dir=1"], "Expected `data_settings` without data_dir"),
        ([*TRAIN, "--set-model", "classes=1"], "Expected `model_settings` without classes"),
        ([*R3, "--set", "weight=[[["], "Expected a number, a word or a list such as [1, 2]"),
        ([*R3, "--set", "weight=" + "[" * 5000], "Expected a number, a word or a list"),
        ([*R3, "--set", "weight=&a [*a]"], "Expected a number, a word or a list"),
        ([*R3, "--set", "weight=2001-99-99"], "Expected a number, a word or a list"),
        (
            [*TRAIN, "--model", "mlp", "--set-model", "hidden=[99999999999]"],
            "Expected data and a model that fit into",
        ),
        ([*TRAIN, "--metrics", ","], "Expected names with commas between them"),
        (
            ["train", "--data", "decoy-digits", "--out", ""],
            "Expected a path, but got an empty word",
        ),
        (
            ["fix", "r", "--out", "run", "--lr", "0.1", "--model", "mlp"],
            "Expected the run in r to say its data, model and settings, but got --lr, --model.",
        ),
        (
            ["audit", "r", "--set-data", "size=9"],
            "Expected the run in r to say its data and model, but got --set-data. Leave them out",
        ),
        (["demo", "--out", ""], "Expected a path, but got an empty word"),
        (["annotate", "decoy-digits", "--rest", "--out", ""], "Expected a path, but got an empty"),
        (["evaluate", ""], "Expected a path, but got an empty word"),
        (["evaluate", LONG], "config.yaml as rightreasons wrote it, but cannot read it"),
        (["annotate", LONG, "--next", "1"], "File name too long"),
        (["bench", "show", "decoy-mnist", "--out", LONG], "File name too long"),
        (["train", "--data", "folder", "--data-dir", LONG, "--out", "run"], "File name too long"),
        (["list", "[/bold]"], "Expected a list, but got '[/bold]'"),
    ],
)
def test_a_bad_argument_is_a_sentence(arguments, words, run):
    code, error = run(*arguments)
    assert code == 2
    assert words in error.replace("│ ", "").replace(" │", "")
    assert "Traceback" not in error


def test_a_rank_that_is_no_number_is_a_sentence(run, monkeypatch):
    monkeypatch.setenv("RANK", "abc")
    code, error = run("list")
    assert code == 2
    assert "Expected the environment variable RANK to be a whole number" in error


def test_names_with_markup_are_printed_as_they_are(capsys):
    names = ["[bold]", "[/]", "a[red]b", "\\[x]"]
    print_result(None, [(names, [names])], as_json=False)
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == row.split() == names


def test_names_with_markup_in_a_bar_are_names():
    with live_bar(show=True) as bar:
        bar.add_task("[/bold]", total=1)
        bar.refresh()
    with progress("[/bold]", total=1) as advance:
        advance(1)
