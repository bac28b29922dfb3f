import json
import math
import os
from dataclasses import FrozenInstanceError, asdict, replace

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from rightreasons.certification import Certificate, Verdict, model_digest
from rightreasons.certification.certificate import STATUSES, sentence_about, summary_of
from rightreasons.core.files import save_weights
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
    entries = json.loads(CERTIFICATE.to_json(tmp_path / "certificate.json").read_text())
    assert entries["format"] == 1
    assert entries["summary"]["shares"]["verified"] == 0.5
    assert entries["sentence"] == CERTIFICATE.sentence
    assert entries["samples"][0]["status"] == "verified"
    assert entries["samples"][0]["logit_gradient_proved"] is None
    assert entries["model_sha256"] == "a" * 64


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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("samples", {}),
        ("settings", []),
        ("model_sha256", 5),
        ("data", None),
        ("groups", "one"),
        ("counterexamples", [5]),
        ("versions", {"torch": 2}),
    ],
)
def test_values_of_another_type_are_refused(tmp_path, name, value):
    path = CERTIFICATE.to_json(tmp_path / "certificate.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    with pytest.raises(RunNotFoundError, match=f"(?s)cannot read it.*{name}"):
        Certificate.from_json(path)


@pytest.mark.parametrize(("name", "value"), [("index", "0"), ("y", 1.5), ("margin_found", "a")])
def test_verdicts_of_another_type_are_refused(tmp_path, name, value):
    path = CERTIFICATE.to_json(tmp_path / "certificate.json")
    entries = json.loads(path.read_text())
    entries["samples"][0][name] = value
    path.write_text(json.dumps(entries))
    with pytest.raises(RunNotFoundError, match=f"(?s)cannot read it.*samples.*{name}"):
        Certificate.from_json(path)


def test_a_pipe_is_not_waited_for(tmp_path):
    path = tmp_path / "certificate.json"
    os.mkfifo(path)
    with pytest.raises(RunNotFoundError, match="it is no file"):
        Certificate.from_json(path)


def test_a_place_that_cannot_be_written(tmp_path):
    with pytest.raises(OutputError, match="cannot be written"):
        CERTIFICATE.to_json(tmp_path / "nowhere" / "certificate.json")


def test_right_is_the_label():
    assert Verdict(index=0, y=1, prediction=1).is_right
    assert not Verdict(index=0, y=1, prediction=2).is_right


@pytest.mark.parametrize("status", STATUSES)
def test_comes_back_from_json(status):
    verdict = Verdict(
        index=3, y=1, prediction=2, group=4, status=status, changed_to=0, margin_proved=-1.5,
        margin_found=0.25, loss_gradient_proved=2.0, loss_gradient_found=1.0,
        logit_gradient_proved=3.0, logit_gradient_found=2.5,
    )  # fmt: skip
    assert Verdict.from_mapping(json.loads(json.dumps(asdict(verdict)))) == verdict


def test_null_is_no_bound_where_there_was_something_to_certify():
    entry = asdict(Verdict(index=0, y=0, prediction=0, status="unknown"))
    verdict = Verdict.from_mapping(entry)
    assert verdict.margin_proved == -math.inf
    assert verdict.loss_gradient_proved == verdict.logit_gradient_proved == math.inf
    nothing = Verdict.from_mapping(entry | {"status": "nothing"})
    assert nothing.margin_proved is nothing.loss_gradient_proved is None


def test_a_status_nobody_knows():
    entry = asdict(Verdict(index=0, y=0, prediction=0))
    with pytest.raises(ValueError, match="no status 'perhaps'"):
        Verdict.from_mapping(entry | {"status": "perhaps"})


def verdict(status, *, y=0, prediction=0, group=-1, size=1.0):
    bounds = {
        f"{name}_gradient_{kind}": factor * size
        for name in ("loss", "logit")
        for kind, factor in (("proved", 2.0), ("found", 1.0))
    }
    gradients = {} if status == "nothing" else bounds
    return Verdict(index=0, y=y, prediction=prediction, group=group, status=status, **gradients)


SAMPLES = [
    verdict("verified", group=0),
    verdict("verified", y=1, group=1, size=3.0),
    verdict("refuted", group=0),
    verdict("unknown", group=1, size=5.0),
    verdict("verified", group=2),
    *[verdict("nothing", group=2)] * 3,
]


def test_counts_and_shares():
    summary = summary_of(SAMPLES)
    assert summary["num_samples"] == 8
    assert summary["num_certifiable"] == 5
    counts = {"verified": 3, "refuted": 1, "unknown": 1, "nothing": 3, "verified_and_right": 2}
    assert summary["counts"] == counts
    shares = {"verified": 0.6, "refuted": 0.2, "unknown": 0.2, "verified_and_right": 0.4}
    assert summary["shares"] == shares


def test_samples_with_nothing_to_certify_are_in_no_share():
    certifiable = [sample for sample in SAMPLES if sample.status != "nothing"]
    assert summary_of(certifiable)["shares"] == summary_of(SAMPLES)["shares"]


def test_the_worst_groups():
    worst = summary_of(SAMPLES, ("a", "b", "c"))["worst_group"]
    assert worst["verified"] == {"group": "a", "share": 0.5, "n": 2}
    assert worst["verified_and_right"] == {"group": "b", "share": 0.0, "n": 2}
    assert summary_of(SAMPLES)["worst_group"]["verified"]["group"] == "0"


def test_without_known_groups_there_is_no_worst():
    worst = summary_of([verdict("verified")])["worst_group"]
    assert worst == {"verified": None, "verified_and_right": None}


def test_bounds():
    summary = summary_of(SAMPLES)
    assert summary["loss_gradient"] == {
        "proved": {"mean": pytest.approx(22 / 5), "max": 10.0},
        "found": {"mean": pytest.approx(11 / 5), "max": 5.0},
    }
    assert summary["logit_gradient"] == summary["loss_gradient"]
    boundless = summary_of([*SAMPLES, verdict("unknown", size=math.inf)])
    assert boundless["loss_gradient"]["proved"] == {"mean": math.inf, "max": math.inf}


def test_nothing_to_certify_at_all():
    summary = summary_of([verdict("nothing")])
    assert summary["shares"]["verified"] is None
    assert summary["loss_gradient"]["proved"] == {"mean": None, "max": None}
    assert "nothing to certify" in sentence_about(summary, {"epsilon": None})


def test_the_sentence_claims_what_was_proved_and_no_more():
    sentence = sentence_about(summary_of(SAMPLES), {"epsilon": 0.1})
    assert sentence == (
        "For 60.0 % of 5 samples it is proved that the prediction stays the same however the "
        "masked features move by up to 0.1; for 20.0 % an attack changed it; for the other 20.0 % "
        "nothing is known. 3 more samples have no mask and do not count. Proved and right: 40.0 %."
    )
    full = sentence_about(summary_of(SAMPLES[:5]), {"epsilon": None})
    assert "whatever valid values the masked features take" in full
    assert "do not count" not in full


def test_nearly_all_is_not_all():
    nearly = [verdict("verified")] * 4999 + [verdict("refuted")]
    sentence = sentence_about(summary_of(nearly), {"epsilon": None})
    assert "For more than 99.9 % of 5000 samples" in sentence
    assert "for less than 0.1 % an attack changed it" in sentence
    assert "for the other 0.0 %" in sentence


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 2))


def test_the_same_weights_have_the_same_digest():
    assert model_digest(net().state_dict()) == model_digest(net().state_dict())
    assert len(model_digest(net().state_dict())) == 64


def test_every_weight_and_statistic_counts():
    digests = {model_digest(net().state_dict())}
    for name in net().state_dict():
        changed = net()
        tensor = changed.state_dict()[name]
        tensor.view(-1)[-1] += 1
        digests.add(model_digest(changed.state_dict()))
    assert len(digests) == len(net().state_dict()) + 1


def test_names_types_and_shapes_count():
    state = {"a": torch.zeros(2, 3)}
    others = [{"b": torch.zeros(2, 3)}, {"a": torch.zeros(3, 2)}, {"a": torch.zeros(2, 3).int()}]
    assert len({model_digest(other) for other in [state, *others]}) == 4


def test_the_order_of_names_and_the_layout_do_not_count():
    a, b = torch.rand(2, 3), torch.rand(4)
    one = model_digest({"a": a, "b": b})
    assert model_digest({"b": b, "a": a.T.contiguous().T}) == one


def test_a_weight_file_has_the_digest_of_its_model(tmp_path):
    save_weights(tmp_path / "model.safetensors", net())
    saved = load_file(tmp_path / "model.safetensors")
    assert model_digest(saved) == model_digest(net().state_dict())


def test_a_model_without_weights():
    assert model_digest({}) != model_digest({"a": torch.zeros(0)})
