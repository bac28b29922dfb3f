import math

import pytest

from rightreasons.certification import Verdict
from rightreasons.certification.certificate import sentence_about, summary_of


def verdict(status, *, y=0, prediction=0, group=-1, size=1.0):
    bounds = {
        f"{name}_gradient_{kind}": factor * size
        for name in ("loss", "logit")
        for kind, factor in (("proved", 2.0), ("found", 1.0))
    }
    told = {} if status == "nothing" else bounds
    return Verdict(index=0, y=y, prediction=prediction, group=group, status=status, **told)


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
