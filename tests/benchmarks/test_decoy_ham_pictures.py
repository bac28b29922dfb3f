import json
from pathlib import Path

import pytest
from PIL import Image

from rightreasons.run.config import Config
from rightreasons.run.run import train_run

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import decoy_ham_pictures

    return decoy_ham_pictures


@pytest.fixture
def runs(tmp_path):
    for recipe in ("erm", "r3"):
        config = Config(
            data="decoy_digits",
            recipe=recipe,
            model="lenet",
            model_settings={"width": 0.1},
            metrics=["accuracy"],
            epochs=1,
        )
        train_run(config, out=tmp_path / recipe)
    return [f"--run={recipe}={tmp_path / recipe}" for recipe in ("erm", "r3")]


def test_a_picture_and_its_figures(script, runs, tmp_path, capsys):
    picture, out = tmp_path / "new" / "sheet.png", tmp_path / "new" / "figures.json"
    targets = [f"--picture={picture}", f"--out={out}"]
    script.main([*runs, *targets, "--samples=12", "--shown=2"])
    figures = json.loads(out.read_text())
    assert json.loads(capsys.readouterr().out) == figures
    assert figures["samples"] == 12
    for name in ("erm", "r3"):
        assert 0 < figures[name]["share of the gradient on the mask"] < 1
        assert 0 <= figures[name]["accuracy in the group"] <= 1
        assert len(figures["right answers in the picture"][name]) == 2
    with Image.open(picture) as drawn:
        side = drawn.height // 2
        assert drawn.size == (6 * side, 2 * side)  # two images, six pictures each
    with pytest.raises(SystemExit, match="Expected --group to be one of .*, but got 'none'"):
        script.main([*runs, *targets, "--group=none"])
