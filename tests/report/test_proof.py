import pytest
import torch
from safetensors.torch import save_file

from rightreasons.certification import Certificate, Verdict, model_digest
from rightreasons.report import write_report
from rightreasons.report.page import proofs_of
from rightreasons.report.record import read_record
from rightreasons.report.section import sections_of

WEIGHTS = {"weight": torch.arange(3.0)}


def certificate(verified, *, epsilon=None, size=4, sha=None):
    zeros = dict.fromkeys(
        [f"{t}_gradient_{k}" for t in ("loss", "logit") for k in ("proved", "found")], 0.0
    )
    samples = [
        Verdict(
            index=n,
            y=0,
            prediction=n % 2,
            status="verified" if n < verified else "refuted",
            margin_proved=0.0,
            **zeros,
        )
        for n in range(size)
    ]
    return Certificate(
        samples=tuple(samples),
        settings={"epsilon": epsilon},
        model_sha256=sha or model_digest(WEIGHTS),
        data_sha256="b" * 64,
    )


@pytest.fixture
def certified(make_run):
    """A run's folder with a certificate in it."""

    def make(recipe, verified, *, seed=0, **changes):
        folder = make_run(recipe, 0.5, seed=seed)
        save_file(WEIGHTS, folder / "model.safetensors")
        certificate(verified, **changes).to_json(folder / "certificate.json")
        return folder

    return make


def section_of(*folders):
    (section,) = sections_of([read_record(folder) for folder in folders])
    return section


def test_a_row_for_each_certificate(certified, make_run):
    section = section_of(
        certified("erm", 1), certified("r3", 4, epsilon=0.25), make_run("input_gradient")
    )
    first, second = proofs_of(section)
    assert (first.method, first.box, first.seed) == ("erm", "every valid value", 0)
    assert (second.method, second.box) == ("r3", "± 0.25")
    told = (first.verified, first.refuted, first.unknown, first.verified_and_right)
    assert [word.replace("\u202f", " ") for word in told] == ["25.0 %", "75.0 %", "0.0 %", "25.0 %"]
    assert second.verified_and_right == "50.0\u202f%"
    assert first.sentence.startswith("For 25.0 % of 4 samples it is proved")


def test_a_certificate_of_nothing(certified):
    (proof,) = proofs_of(section_of(certified("erm", 0, size=0)))
    assert proof.verified == "–"
    assert "nothing to certify" in proof.sentence


def test_no_certificates_no_rows(make_run):
    assert proofs_of(section_of(make_run())) == []


def test_the_page_tells_what_is_proved(certified, make_run, tmp_path):
    runs = [certified("erm", 1), certified("r3", 4)]
    page = write_report(runs, tmp_path / "report.html").read_text()
    assert "<h2>What is proved</h2>" in page
    assert "whatever valid values the masked features take" in page
    assert "not about whether it is right" in page
    without = write_report([make_run()], tmp_path / "report.html").read_text()
    assert "What is proved" not in without
