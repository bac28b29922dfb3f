"""Models that take a shortcut are trained in ways that hide it; no report may turn green."""

import json
from dataclasses import replace

import pytest
import torch
from tests.tagged_pictures import pictures
from typer.testing import CliRunner

from rightreasons.cli.commands import app
from rightreasons.datasets import InMemory, Splits
from rightreasons.report import judge_runs
from rightreasons.run import Config, train_run

WEAK = {"core": 0.02}
ONE_CLASS = {"core": 0.0, "tagged": (1,)}


def without_groups(batch):
    return InMemory(replace(batch, group=None))


def splits(made, *, test=None, validation=True, change=lambda batch: batch):
    """A hold-out that is like the training data, unless ``test`` says otherwise."""
    return Splits(
        train=without_groups(change(pictures(seed=0, **made))),
        val=without_groups(change(pictures(seed=1, **made))) if validation else None,
        test=without_groups(change(pictures(seed=2, **(made if test is None else test)))),
    )


def unmark_half(batch):
    """Tags stay, but every other pair of samples has an empty mask."""
    keep = (torch.arange(len(batch)) // 2 % 2).bool()
    return batch.replace(mask=batch.mask * keep[:, None, None, None])


def judged(tmp_path, data, *recipes, **changes):
    folders = []
    for recipe, settings in recipes or [("erm", {})]:
        folder = tmp_path / f"{recipe}-{len(folders)}"
        config = Config(
            data="decoy_digits",
            recipe=recipe,
            settings=settings,
            model="mlp",
            model_settings={"hidden": [32]},
            epochs=15,
            lr=0.01,
            batch_size=50,
            **changes,
        )
        train_run(config, folder, data=data, progress=False)
        folders.append(folder)
    return judge_runs(folders), folders


CASES = {
    "tags on one class only": (splits(ONE_CLASS), "bad"),
    "masks empty on some": (splits(WEAK, change=unmark_half), "bad"),
    "tag removed at test": (splits(WEAK, test={"core": 0.02, "tagged": ()}), "bad"),
    "tag removed at test, no validation": (
        splits(WEAK, test={"core": 0.02, "tagged": ()}, validation=False),
        "bad",
    ),
    "soft masks": (splits({**WEAK, "strength": 0.3}), "bad"),
    "polarity inverted": (splits({**WEAK, "masks": "inverted"}), "mixed"),
}


@pytest.mark.parametrize("case", CASES)
def test_no_shortcut_gets_an_all_clear(case, tmp_path):
    data, tone = CASES[case]
    verdict, _ = judged(tmp_path, data)
    assert verdict["verdict"] == tone
    assert verdict["exit_code"] == {"mixed": 3, "bad": 4}[tone]
    (section,) = verdict["data"]
    assert section["next"]


@pytest.mark.parametrize("metric", ["swap_accuracy", "input_gradient_mass"])
def test_one_probe_is_not_enough(metric, tmp_path):
    data = splits({"core": 0.6, "tag": 0.0})
    verdict, _ = judged(tmp_path, data, metrics=["accuracy", metric])
    (section,) = verdict["data"]
    assert (verdict["verdict"], section["badge"]) == ("mixed", "One probe only")
    assert "Measure in a second way" in section["next"][0]


def test_an_honest_model_with_two_probes_gets_it(tmp_path):
    verdict, (folder,) = judged(tmp_path, splits({"core": 0.6, "tag": 0.0}))
    assert (verdict["verdict"], verdict["exit_code"]) == ("good", 0)
    page = tmp_path / "page.html"
    done = CliRunner().invoke(app, ["report", str(folder), "--out", str(page), "--check"])
    assert done.exit_code == 0
    assert "No sign of a shortcut" in page.read_text()


def test_every_method_fails_is_red_and_the_exit_code_says_so(tmp_path):
    recipes = [("erm", {}), ("r3", {"weight": 0.0}), ("r3", {"weight": 1e-6})]
    verdict, folders = judged(tmp_path, splits(WEAK), *recipes)
    (section,) = verdict["data"]
    assert (verdict["verdict"], section["badge"]) == ("bad", "Every method fails")
    assert any("signs" in sentence for sentence in section["evidence"])
    page = str(tmp_path / "page.html")
    arguments = ["report", *map(str, folders), "--out", page]
    plain = CliRunner().invoke(app, arguments)
    assert plain.exit_code == 0
    assert "Every method fails. " in plain.output
    done = CliRunner().invoke(app, [*arguments, "--check", "--json"])
    assert done.exit_code == 4
    assert json.loads(done.stdout) == {"report": page, **verdict}
    text = (tmp_path / "page.html").read_text()
    assert "What to try next" in text
    assert "exchanged: " in text
    assert "→" in text.split("Where the models look")[1]
