"""What an audit and a repair add to the page, and the files beside it."""

import json
from hashlib import sha256

import pytest

from rightreasons.errors import RunNotFoundError
from rightreasons.report import judge_runs, write_report
from rightreasons.report.curves import make_risks
from rightreasons.report.story import read_findings, read_repair
from rightreasons.report.wording import plain_text

RISKS = {"risk_coverage/error/50": 0.1, "risk_coverage/error/100": 0.2}


def test_the_page_tells_the_story(repair, audit, tmp_path):
    page = plain_text(write_report([repair], tmp_path / "report.html", audit=audit).read_text())
    for words in (
        "takes the accuracy from 20.0 % to 80.0 %",
        "Removing tag feeds stripe &lt;b&gt;.",
        "Test data took no part in the choice",
        "30.0 % before, 85.0 % after; the original owed 10.0 points",
        "40.0 points",
        "35.0 to 45.0",
        "masks on 95.0 % of the validation samples, 4.0 % of each",
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
    assert told["repair"]["shortcuts"][0]["before"]["cost"] == 0.4
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
