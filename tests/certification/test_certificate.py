import json
import math
from dataclasses import FrozenInstanceError, replace

import pytest

from rightreasons.certification import Certificate, Verdict
from rightreasons.errors import OutputError, RunNotFoundError

BOUNDS = {
    "loss_gradient_proved": 2.0,
    "loss_gradient_found": 1.0,
    "logit_gradient_proved": math.inf,
    "logit_gradient_found": 1.0,
}
CERTIFICATE = Certificate(
    samples=(
        Verdict(
            index=0, y=0, prediction=0, group=0, status="verified", margin_proved=0.5, **BOUNDS
        ),
        Verdict(
            index=1, y=1, prediction=0, group=1, status="unknown", margin_proved=-math.inf, **BOUNDS
        ),
        Verdict(index=2, y=1, prediction=1, group=1),
    ),
    settings={"epsilon": 0.1, "method": "auto"},
    model_sha256="a" * 64,
    data_sha256="b" * 64,
    data="digits",
    groups=("zero", "one"),
    counterexamples=({"index": 5, "features": [1, 2], "values": [0.0, 1.0]},),
    versions={"torch": "2"},
)


def test_comes_back_from_its_file(tmp_path):
    path = CERTIFICATE.to_json(tmp_path / "certificate.json")
    assert Certificate.from_json(path) == CERTIFICATE
    assert Certificate.from_json(str(path)).summary == CERTIFICATE.summary


def test_the_file_can_be_read_without_the_library(tmp_path):
    told = json.loads(CERTIFICATE.to_json(tmp_path / "certificate.json").read_text())
    assert told["format"] == 1
    assert told["summary"]["shares"]["verified"] == 0.5
    assert told["sentence"] == CERTIFICATE.sentence
    assert told["samples"][0]["status"] == "verified"
    assert told["samples"][0]["logit_gradient_proved"] is None
    assert told["model_sha256"] == "a" * 64


def test_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        CERTIFICATE.data = "other"
    assert replace(CERTIFICATE, data="other").data == "other"


def test_summary_names_the_groups():
    assert CERTIFICATE.summary["worst_group"]["verified"]["group"] == "one"


@pytest.mark.parametrize(
    "text", [None, "{", "[]", "{}", '{"format": 2}', '{"format": 1, "samples": [{"index": 0}]}']
)
def test_a_file_that_is_no_certificate(tmp_path, text):
    path = tmp_path / "certificate.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(RunNotFoundError, match="a certificate at .*`rightreasons certify RUN`"):
        Certificate.from_json(path)


def test_a_place_that_cannot_be_written(tmp_path):
    with pytest.raises(OutputError, match="cannot be written"):
        CERTIFICATE.to_json(tmp_path / "nowhere" / "certificate.json")
