import json

import pytest
from typer.testing import CliRunner

from rightreasons.cli.commands import app
from rightreasons.errors import InvalidSettingError
from rightreasons.run import Config, train_run

runner = CliRunner()


def run(*arguments):
    result = runner.invoke(app, [str(one) for one in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_data_alone_are_audited_and_a_finding_becomes_masks(tmp_path):
    folder, masks = tmp_path / "audit", tmp_path / "masks"
    result = run("audit", "--data", "decoy_digits", "--max-samples", 600, "--out", folder)
    assert result.exit_code == 0
    assert "tells the label" in result.output and "a small patch" in result.output
    assert f"Open {folder / 'audit.html'} in a browser." in " ".join(result.output.split())
    first = json.loads((folder / "audit.json").read_text())["findings"][0]
    assert first["kind"] == "patch" and first["tells_label"] > 0.7
    accepted = run("audit", "accept", folder, 1, "--out", masks, "--json")
    told = json.loads(accepted.output)
    assert told["masks"] == str(masks) and told["parts"]["train"]["samples"] == 1000
    assert (masks / "val.npz").exists() and (masks / "masks.json").exists()


def test_data_that_moved_are_found_from_any_folder(tmp_path, monkeypatch):
    """The audit keeps the whole path of --data-dir, for a run whose data were elsewhere."""
    before, now, elsewhere = (tmp_path / name for name in ("before", "now", "elsewhere"))
    before.mkdir()
    elsewhere.mkdir()
    rows = "\n".join(f"{row % 7},{row * 5 % 11},{row % 2}" for row in range(120))
    (before / "data.csv").write_text(f"a,b,label\n{rows}\n")
    config = Config(data="table", data_dir=str(before), epochs=1)
    train_run(config, tmp_path / "run", progress=False)
    before.rename(now)
    monkeypatch.chdir(tmp_path)
    run("audit", "run", "--data-dir", "now", "--out", "audit")
    monkeypatch.chdir(elsewhere)
    run("audit", "accept", "../audit", 1)
    assert (elsewhere / "masks" / "train.npz").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "x"], "Expected the folder of a run, or --data NAME, but got neither"),
        (["run", "--data", "decoy_digits"], "but got both"),
        (["--data", "decoy_digits", "--model", "mlp"], "its weights would be random"),
        (["--data", "decoy_digits", "--weights", "w"], "Expected --model with --weights"),
        (["--data", "decoy_digits", "--split", "x"], "Expected `--split` to be one of train"),
    ],
)
def test_what_cannot_be_audited(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidSettingError, match=message):
        run("audit", *arguments)
