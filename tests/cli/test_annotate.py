import csv
import json
import re

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from rightreasons.annotators import PseudoAnnotator
from rightreasons.cli import app

QUICK = ["--set", "width=2", "--set", "depth=1", "--set", "num-updates=3"]


def rightreasons(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def images(tmp_path):
    """Twelve grey images, a data.csv without masks, and a folder with masks of three."""
    rows, stream = ["file,label,split"], np.random.default_rng(0)
    for number in range(12):
        pixels = stream.integers(0, 255, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"i{number}.png")
        rows.append(f"i{number}.png,{'ab'[number % 2]},{'train' if number < 10 else 'test'}")
    (tmp_path / "data.csv").write_text("\n".join(rows))
    (tmp_path / "masks").mkdir()
    for number in range(3):
        mask = np.zeros((8, 8), dtype=np.uint8)
        mask[:, : 2 + number] = 255
        Image.fromarray(mask).save(tmp_path / "masks" / f"i{number}.png")
    return tmp_path


def test_lists_what_to_annotate_next(tmp_path):
    path = tmp_path / "next.csv"
    options = ["--num-annotations", 1, "--next", 4, "--out", path, *QUICK]
    done = rightreasons("annotate", "decoy-digits", *options)
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert len(rows) == 4
    assert list(rows[0]) == ["index", "file", "uncertainty"]
    assert float(rows[0]["uncertainty"]) >= max(float(row["uncertainty"]) for row in rows) - 1e-9
    for row in rows:
        assert row["index"] in done.stdout
    assert f"Wrote {path}." in done.stdout


def test_masks_from_a_folder_and_names_of_files(images):
    options = ["--annotations", images / "masks", "--mask-polarity", "irrelevant", "--json"]
    done = rightreasons(
        "annotate", images, "--next", 20, *options, *QUICK, "--set-data", "workers=0"
    )
    assert done.exit_code == 0, done.output
    listed = json.loads(done.stdout)
    assert sorted(row["file"] for row in listed) == [f"i{number}.png" for number in range(3, 10)]


def test_writes_all_masks(images):
    out = images / "all.npz"
    options = ["--annotations", images / "masks", "--mask-polarity", "relevant", "--out", out]
    options += ["--cache-dir", images / "cache", *QUICK, "--set-data", "workers=0"]
    done = rightreasons("annotate", images, "--rest", *options)
    assert done.exit_code == 0, done.output
    assert f"Wrote {out}." in done.stdout
    with np.load(out) as kept:
        assert kept["mask"].shape == (10, 8, 8)
        assert kept["annotated"].tolist() == [True] * 3 + [False] * 7
        assert kept["mask"][0, 0].tolist() == [0, 0] + [255] * 6
        assert kept["files"].tolist() == [f"i{number}.png" for number in range(10)]
    assert len(list((images / "cache").iterdir())) == 1
    own = ["--data", "folder", "--data-dir", images, "--model", "mlp", "--recipe", "r3"]
    train = ["train", *own, "--epochs", 1, "--metrics", "accuracy", "--json", "--masks"]
    guided = json.loads(rightreasons(*train, out, "--out", images / "a").stdout)
    assert "r3" in guided[0]["terms"]
    drawn = [images / "masks", "--mask-polarity", "relevant"]
    done = rightreasons(*train, *drawn, "--out", images / "b")
    assert done.exit_code == 0 and "- /" in (images / "b" / "config.yaml").read_text()
    for path, words in (
        (
            images / "masks",
            "Expected to know what is white in the masks of .*--mask-polarity irrelevant",
        ),
        (images / "none.npz", "there is none. Name one .--masks.*`rightreasons annotate --rest"),
    ):
        failed = rightreasons(*train, path, "--out", images / "c")
        assert re.search(words, str(failed.exception))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "Expected either --next NUMBER, or --rest with --out FILE.npz"),
        (["--rest"], "Expected either --next NUMBER, or --rest with --out FILE.npz"),
        (["--next", 3, "--rest", "--out", "m.npz"], "Expected either --next NUMBER, or --rest"),
        (["--next", 3, "--annotations", ".", "--num-annotations", 2], "but got both"),
        (["--next", 3, "--annotations", "."], "Expected --mask-polarity with --annotations"),
        (["--next", 3, "--set", "wide=3"], "Expected settings of the annotator among: objective"),
        (["--next", 0, "--num-annotations", 1], "Expected `--next` to be a whole number from 1"),
        (["--next", 3], "but all 1000 of 'decoy_digits' are annotated"),
        (["--next", 3, "--out", "x.npz"], "called *.csv with --next, a table, but got 'x.npz'"),
        (["--rest", "--out", "x.csv"], "called *.npz with --rest, an archive of masks, but got"),
        (["--rest", "--out", "a/x.csv"], "Call it 'a/x.npz'."),
        (["--next", 3, "--out", "folder.csv"], "`--out` to be a file, but folder.csv is a folder"),
        (["--next", 3, "--out", "taken/x.csv"], "Expected a place to write to, but taken cannot"),
        (["--next", 3, "--cache-dir", "taken"], "Expected a place to write to, but taken cannot"),
        (
            ["--next", 3, "--mask-polarity", "relevant"],
            "got 'relevant' for 'decoy-digits', whose masks have a polarity of their own",
        ),
    ],
)
def test_mistakes_are_told_before_training(options, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "taken").touch()
    monkeypatch.setattr(PseudoAnnotator, "fit", None)
    done = rightreasons("annotate", "decoy-digits", *options)
    assert done.exit_code != 0
    assert words in str(done.exception)
