"""The documented way from a suspicion to a repaired model, as a user types it."""

import csv
import json
import runpy
import shlex
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import rightreasons as rr
from rightreasons.cli.commands import app
from rightreasons.datasets import Card, InMemory, Splits
from rightreasons.run.trials import Trials

pytestmark = pytest.mark.usefixtures("one_thread")

SCRIPT = Path(__file__).parents[2] / "examples" / "tagged_pets.sh"
SIDE, TAG, EPOCHS = 24, 6, 10


def write_photos(folder, *, seed=0):
    """Bright above or bright on the left; a small tag somewhere tells which, but not at test."""
    draws = np.random.default_rng(seed)
    tags = [np.full((TAG, TAG, 3), grey, np.uint8) for grey in (230, 20)]
    tags[0][2:4], tags[1][:, 2:4] = 20, 230
    folder.mkdir()
    rows = [["file", "label", "split", "group"]]
    for number in range(300):
        split = "train" if number < 160 else "val" if number < 200 else "test"
        label = number % 2
        tag = label if split != "test" else int(draws.integers(2))
        pixels = draws.integers(60, 160, size=(SIDE, SIDE, 3))
        half = (slice(None), slice(SIDE // 2)) if label else (slice(SIDE // 2), slice(None))
        pixels[half] += 5
        top, left = draws.integers(SIDE - TAG + 1, size=2)
        pixels[top : top + TAG, left : left + TAG] = tags[tag]
        name = f"{number:03}.png"
        Image.fromarray(pixels.astype(np.uint8)).save(folder / name)
        words = ("above", "left")[label]
        rows.append([name, words, split, f"{words}, tag {tag}" if split == "test" else ""])
    with (folder / "data.csv").open("w", newline="") as table:
        csv.writer(table).writerows(rows)


def documented_commands(**values):
    """The commands of the example, each with the words of the script's variables."""
    for line in SCRIPT.read_text().splitlines():
        if line.startswith("rightreasons "):
            for name, value in values.items():
                line = line.replace(name, value)
            yield shlex.split(line)[1:]


def test_from_a_suspicion_to_a_repaired_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Trials, "_affordable_epochs", lambda self, turn: EPOCHS)
    write_photos(tmp_path / "photos")
    training = f"--model small_cnn --epochs {EPOCHS} --batch-size 10 --lr 0.002"
    words = {'"$PHOTOS"': "photos", '"$@"': training, '"${BUDGET:-5m}"': "5m"}
    commands = list(documented_commands(**words, **{'"${TRIALS:-2}"': "1"}))
    assert [one[:2] for one in commands[1:]] == [
        ["data", "check"],
        ["audit", "erm"],
        ["audit", "accept"],
        ["fix", "erm"],
        ["report", "fixed"],
    ]
    run = partial(CliRunner().invoke, app, catch_exceptions=False)
    for command in commands:
        done = run(command)
        assert done.exit_code == 0, done.output
    first = json.loads(Path("audit/audit.json").read_text())["findings"][0]
    assert first["kind"] == "patch" and first["verdict"] == "the model uses it"
    fixed = json.loads(Path("fixed/fixed.json").read_text())
    assert fixed["verdict"] == "fixed" and fixed["selected_by"] == "worst_swap"
    worst = [
        json.loads((Path("fixed") / place / "results.json").read_text())["metrics"]["test"]
        for place in (fixed["runs"]["before"], fixed["runs"]["after"])
    ]
    before, after = (one["group_accuracy/worst"] for one in worst)
    assert before < 0.3 < 0.6 < after
    told = json.loads(Path("report.json").read_text())
    assert told["findings"][0]["verdict"] == "the model uses it" and told["repair"]["chosen"]
    assert "the model uses it" in Path("report.html").read_text()


def test_photographs_are_written_as_a_user_has_them(tmp_path):
    script = runpy.run_path(str(SCRIPT.with_name("tagged_photos.py")))
    x, y = torch.rand(4, 3, 8, 8), torch.tensor([0, 1, 0, 1])
    card = Card(name="pair", classes=("cat", "dog"), groups=("alike", "apart"))
    part = InMemory(rr.Batch(x=x, y=y, mask=torch.ones(4, 1, 8, 8), group=1 - y), card)
    script["write_photos"](Splits(part, part, part), tmp_path / "photos")
    again = rr.datasets.folder(tmp_path / "photos")
    assert [len(one) for one in (again.train, again.val, again.test)] == [4, 4, 4]
    read = again.test.take(torch.arange(4))
    torch.testing.assert_close(read.x, x, rtol=0, atol=0.51 / 255)
    assert read.y.tolist() == [0, 1, 0, 1] and not again.train.has_masks
    assert [again.card.groups[n] for n in read.group] == ["apart", "alike"] * 2
