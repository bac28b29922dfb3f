import json

import pytest
from typer.testing import CliRunner

import rightreasons as rr
from rightreasons.cli import app
from rightreasons.cli import certify as cli_certify


def rightreasons(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def run(digits_run):
    return digits_run


def test_prints_a_summary_and_writes_the_certificate(run, tmp_path):
    path = tmp_path / "proof.json"
    done = rightreasons("certify", run, "--full-range", "--method", "ibp", "--out", path)
    assert done.exit_code == 0, done.output
    certificate = rr.Certificate.from_json(path)
    assert certificate.settings["epsilon"] is None
    assert (certificate.settings["method"], certificate.settings["split"]) == ("ibp", "test")
    counts = certificate.summary["counts"]
    for word in ("verified", "refuted", "unknown", "nothing to certify"):
        assert word in done.stdout
    assert f"{counts['verified']}" in done.stdout
    assert "worst group digit" in done.stdout
    assert "masked loss gradient, mean: at least" in done.stdout
    assert certificate.sentence in done.stdout
    assert f"Wrote {path}." in done.stdout


def test_json(run):
    done = rightreasons("certify", run, "--epsilon", "0.05", "--split", "validation", "--json")
    told = json.loads(done.stdout)
    assert told["certificate"] == str(run / "certificate.json")
    certificate = rr.Certificate.from_json(run / "certificate.json")
    assert told["summary"]["counts"] == certificate.summary["counts"]
    assert told["sentence"] == certificate.sentence
    assert certificate.settings["split"] == "validation"
    assert certificate.settings["epsilon"] == 0.05


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "Expected exactly one of --epsilon E and --full-range, but got neither."),
        (["--epsilon", "0.1", "--full-range"], "--full-range, but got both."),
        (["--full-range", "--method", "lp"], "Expected `method` to be 'ibp' or 'crown' or 'auto'"),
        (["--full-range", "--split", "train"], "Expected `split` to be 'test' or 'validation'"),
        (["--epsilon", "-1"], "Expected `epsilon` to be a finite number above 0"),
    ],
)
def test_mistakes(run, options, words):
    done = rightreasons("certify", run, *options)
    assert isinstance(done.exception, rr.errors.InvalidSettingError)
    assert words in str(done.exception)


def test_help_explains():
    done = rightreasons("certify", "--help")
    assert done.exit_code == 0
    assert "--full-range" in done.output


def test_what_was_not_measured_is_not_printed():
    nothing = {"mean": None, "max": None}
    names = ("verified", "refuted", "unknown", "verified_and_right")
    text = cli_certify._text(
        {
            "counts": {**dict.fromkeys(names, 0), "nothing": 7},
            "shares": dict.fromkeys(names),
            "worst_group": {"verified": None, "verified_and_right": None},
            "loss_gradient": {"proved": nothing, "found": nothing},
            "logit_gradient": {"proved": nothing, "found": nothing},
        }
    )
    assert "group" not in text and "gradient" not in text
    assert text.splitlines()[0].split() == ["verified", "0", "-"]
    assert text.splitlines()[-1].split() == ["nothing", "to", "certify", "7"]
