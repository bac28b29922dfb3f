"""What an audit and a repair add to the page, and the files beside it."""

import json
from hashlib import sha256

import numpy as np
import pytest
from PIL import Image

from rightreasons.errors import RunNotFoundError
from rightreasons.report import judge_runs, write_report
from rightreasons.report.curves import make_risks
from rightreasons.report.story import read_findings, read_repair

LOST = {"before": 0.9, "accuracy": 0.5, "cost": 0.4, "low": 0.35, "high": 0.45}
GONE = LOST | {"cost": 0.01, "low": -0.01, "high": 0.02}
RISKS = {f"risk_coverage/{kind}/{share}": share / 500 for kind in ("error",) for share in (50, 100)}


@pytest.fixture
def repair(make_run, make_metrics, tmp_path):
    """The folder of a repair: two runs, two trials, two shortcuts of which one grew."""
    folder = tmp_path / "fixed"
    (folder / "trials").mkdir(parents=True)
    make_run("as it is", 0.2, name="fixed/before", test=make_metrics(0.2) | RISKS)
    make_run("counterexamples", 0.8, name="fixed/trials/000", test=make_metrics(0.8) | RISKS)
    row = {
        "number": 0,
        "method": "counterexamples",
        "settings": {"source": "auto"},
        "lr": 1e-3,
        "epochs": 3,
        "state": "finished",
        "reason": "",
        "values": {"score": 0.8, "accuracy": 0.85},
        "keeps": True,
        "seconds": 61.0,
    }
    stopped = row | {"number": 1, "method": "r3", "state": "stopped", "values": {}}
    stopped |= {"reason": "the budget was used up", "keeps": False}
    fixed = {
        "sentence": "Trial 0, counterexamples, takes the accuracy from 20.0 % to 80.0 %.",
        "selected_what": "accuracy on validation samples with exchanged shortcuts",
        "selected_why": "there are masks",
        "kept_what": "the validation accuracy",
        "num_trials": 2,
        "budget": {"seconds": 120, "spent": 90.0},
        "warnings": ["Removing tag feeds stripe <b>."],
        "runs": {"before": "before", "after": "trials/000"},
        "shortcuts": [
            {"name": "tag", "fixed": True, "before": LOST, "after": GONE},
            {"name": "stripe", "fixed": False, "before": GONE, "after": None},
        ],
    }
    (folder / "fixed.json").write_text(json.dumps(fixed))
    (folder / "tried.json").write_text(json.dumps({"chosen": 0, "trials": [row, stopped]}))
    (folder / "masks").mkdir()
    quality = {"iou": 0.8, "calibration_error": 0.01, "num_masks": 30}
    told = {"num_annotations": 20, "num_predicted": 180, "held_out": quality}
    (folder / "masks" / "quality.json").write_text(json.dumps(told))
    return folder


@pytest.fixture
def audit(tmp_path):
    """The folder of an audit, with pictures as strings and by what they show."""
    folder = tmp_path / "audit"
    (folder / "pictures").mkdir(parents=True)
    for name in ("one.png", "pictures/before.png", "pictures/after.png"):
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(folder / name)
    planted = {"shows": "planting", "before": "before.png", "after": "after.png"}
    found = {
        "name": "a tag <i>",
        "kind": "patch",
        "verdict": "the model uses it",
        "strength": 0.9,
        "interval": [0.8, 1.0],
        "prevalence": 0.5,
        "classes": ["cat"],
        "advice": "Accept it.",
        "pictures": ["one.png", planted | {"predicted": ["cat", "dog"]}, "../fixed/secret.png", 3],
    }
    content = {"format": 1, "findings": [found, {"name": "bare"}, "no finding"]}
    (folder / "audit.json").write_text(json.dumps(content))
    return folder


def test_the_page_tells_the_story(repair, audit, tmp_path):
    page = write_report([repair], tmp_path / "report.html", audit=audit).read_text()
    for words in (
        "takes the accuracy from 20.0 % to 80.0 %",
        "Removing tag feeds stripe &lt;b&gt;.",
        "Test data took no part in the choice",
        "40.0 points",
        "35.0 to 45.0",
        "no, only watched",
        "stopped: the budget was used up",
        "IoU with masks by hand",
        "a tag &lt;i&gt;",
        "0.90 (0.80 to 1.00)",
        "before planting: cat",
        "after planting: dog",
        "If the model may abstain",
        "Files behind every number",
    ):
        assert words in page, words
    assert page.count("data:image/png") == 3 + 3 * 3  # the audit's, and three samples of two runs
    assert "secret" not in page


def test_every_number_beside_the_page_has_its_file(repair, audit, tmp_path):
    write_report([repair], tmp_path / "report.html", audit=audit)
    told = json.loads((tmp_path / "report.json").read_text())
    assert told["verdict"] == judge_runs([repair])["verdict"]
    sources = {entry["path"]: entry["sha256"] for entry in told["sources"]}
    for path, digest in sources.items():
        with open(path, "rb") as file:
            assert sha256(file.read()).hexdigest() == digest
    runs = [run for method in told["methods"] for run in method["runs"]]
    assert len(runs) == 2 and all(run["file"] in sources for run in runs)
    for name in ("fixed/fixed.json", "fixed/tried.json", "audit/audit.json"):
        assert str(tmp_path / name) in sources
    results = json.loads((repair / "before" / "results.json").read_text())["metrics"]["test"]
    assert runs[0]["test"] == results
    assert told["repair"]["shortcuts"][0]["before"] == LOST
    assert told["findings"][0]["name"] == "a tag <i>"


def test_the_model_card_is_plain_markdown(repair, audit, tmp_path):
    write_report([repair], tmp_path / "report.html", audit=audit)
    card = (tmp_path / "report.md").read_text()
    for words in (
        "# Model card",
        "### Model: counterexamples",
        "| Right in the worst group | 20.0 % | 80.0 % |",
        "| tag | 40.0 points | 1.0 points |",
        "| ill | 20.0 % | 80.0 % |",
        "- Warning: Removing tag feeds stripe",
        "## What the audit found",
    ):
        assert words in card, words
    assert "\u202f" not in card


def test_what_is_missing_is_told_or_left_out(repair, audit, tmp_path):
    bare = read_findings(audit)[1]
    assert (bare.name, bare.facts, bare.pictures) == ("bare", (), ())
    (repair / "masks" / "quality.json").write_text('{"num_annotations": 20, "held_out": null}')
    assert dict(read_repair(repair).masks)["Quality"].startswith("unknown")
    (repair / "tried.json").unlink()
    with pytest.raises(RunNotFoundError, match="Expected .*tried.json of a repair, but there is n"):
        read_repair(repair)
    (audit / "audit.json").write_text("[]")
    with pytest.raises(RunNotFoundError, match="of an audit, but it holds no names with values"):
        read_findings(audit)


def test_risks_are_drawn_where_there_are_two_points(make_section, make_metrics):
    one = {"test": make_metrics(0.5) | {"risk_coverage/error/100": 0.5}}
    assert make_risks(make_section(("erm", 0.5, one))) == []
    (risk,) = make_risks(make_section(("erm", 0.5, {"test": make_metrics(0.5) | RISKS})))
    assert risk.title == "Errors over all answers" and "answered 100 %" in risk.chart
