import copy
import sys

import pytest
import torch

from rightreasons import bounds
from rightreasons.certification.certify import Settings, judged
from rightreasons.errors import CertificateError, InvalidBatchError

judgement = sys.modules["rightreasons.certification.certify"]  # the function has its name

SETTINGS = {
    "epsilon": 0.3,
    "valid_range": (0.0, 1.0),
    "method": "auto",
    "batch_size": 20,
    "num_steps": 5,
    "num_restarts": 2,
    "seed": 0,
}


def judged_by(net, batch, **settings):
    return judged(net, copy.deepcopy(net).double(), batch, Settings(**{**SETTINGS, **settings}))


def test_every_sample_has_its_verdict(net_of, batch_of):
    net, batch = net_of(), batch_of()
    found = judged_by(net, batch)
    assert [verdict.index for verdict in found.verdicts] == batch.index.tolist()
    assert [verdict.y for verdict in found.verdicts] == batch.y.tolist()
    assert [verdict.group for verdict in found.verdicts] == batch.group.tolist()
    predictions = net(batch.x).argmax(dim=1).tolist()
    assert [verdict.prediction for verdict in found.verdicts] == predictions
    empty = [verdict.status == "nothing" for verdict in found.verdicts]
    assert empty == (~batch.mask.any(dim=1)).tolist()
    assert {verdict.status for verdict in found.verdicts} >= {"verified", "refuted"}


def test_a_batch_without_masks_anywhere(net_of, batch_of):
    batch = batch_of()
    found = judged_by(net_of(), batch.replace(mask=torch.zeros_like(batch.mask)))
    assert {verdict.status for verdict in found.verdicts} == {"nothing"}
    assert found.counterexamples == []


def test_counterexamples_change_the_prediction(net_of, batch_of):
    net, batch = net_of(), batch_of()
    found = judged_by(net, batch)
    refuted = [verdict for verdict in found.verdicts if verdict.status == "refuted"]
    assert len(refuted) == len(found.counterexamples) > 0
    for verdict, shown in zip(refuted, found.counterexamples, strict=True):
        assert (shown["index"], shown["changed_to"]) == (verdict.index, verdict.changed_to)
        x = batch.x[shown["index"]].clone()
        assert batch.mask[shown["index"]].nonzero().flatten().tolist() == shown["features"]
        x[shown["features"]] = torch.tensor(shown["values"])
        assert int(net(x[None]).argmax()) == shown["changed_to"] != shown["prediction"]


@pytest.mark.parametrize("method", ["ibp", "auto", "crown"])
def test_tighter_bounds_are_for_samples_nobody_decided(net_of, batch_of, monkeypatch, method):
    margins, gradients = [], []
    honest = judgement.proved_margin, judgement.proved_gradient

    def proved_margin(region, rows, *, method):
        margins.append((method, len(rows)))
        return honest[0](region, rows, method=method)

    def proved_gradient(region, target, *, method):
        gradients.append(method)
        return honest[1](region, target, method=method)

    monkeypatch.setattr(judgement, "proved_margin", proved_margin)
    monkeypatch.setattr(judgement, "proved_gradient", proved_gradient)
    net, batch = net_of(hidden=(8, 8, 8)), batch_of()
    plain = [verdict.status for verdict in judged_by(net, batch, method="ibp").verdicts]
    margins.clear()
    gradients.clear()
    found = [verdict.status for verdict in judged_by(net, batch, method=method).verdicts]
    assert plain.count("unknown") > 0
    assert margins[0] == ("ibp", 16)
    assert margins[1:] == ([] if method == "ibp" else [("crown", plain.count("unknown"))])
    assert gradients == ["crown" if method == "crown" else "ibp"] * 2
    assert found.count("verified") >= plain.count("verified")
    assert found.count("refuted") == plain.count("refuted")


def test_a_wrong_proof_of_a_margin_is_refused(net_of, batch_of, monkeypatch):
    honest = bounds.margin_bounds

    def optimist(*arguments, **settings):
        return honest(*arguments, **settings) + 100

    monkeypatch.setattr(bounds, "margin_bounds", optimist)
    with pytest.raises(CertificateError, match="proved not to change to stay, but an attack"):
        judged_by(net_of(), batch_of(), epsilon=None)
    with pytest.raises(CertificateError, match="no larger loss of margin than was proved"):
        judged_by(net_of(scale=0.1), batch_of(), epsilon=1e-3)


def test_a_wrong_proof_of_a_gradient_is_refused(net_of, batch_of, monkeypatch):
    honest = judgement.gradient_size_bound

    def optimist(region, interval):
        return 0.5 * honest(region, interval)

    monkeypatch.setattr(judgement, "gradient_size_bound", optimist)
    with pytest.raises(CertificateError, match="no larger gradient of the loss than was proved"):
        judged_by(net_of(), batch_of(), epsilon=1e-3)


@pytest.mark.parametrize("part", ["mask", "index"])
def test_a_batch_that_lacks_something(net_of, batch_of, part):
    with pytest.raises(InvalidBatchError, match="Expected every batch to have masks and an index"):
        judged_by(net_of(), batch_of().replace(**{part: None}))


def test_large_nets_are_not_tightened_unasked(net_of, batch_of, monkeypatch):
    net, batch = net_of(hidden=(8, 8, 8)), batch_of()
    plain, tight = (judged_by(net, batch, method=method).verdicts for method in ("ibp", "crown"))
    assert judged_by(net, batch, method="auto").verdicts != plain
    monkeypatch.setattr(judgement, "MOST_UNITS", 26)  # three times eight, and three logits: 27
    assert statuses(judged_by(net, batch, method="auto").verdicts) == statuses(plain)
    assert statuses(judged_by(net, batch, method="crown").verdicts) == statuses(tight)


def statuses(verdicts):
    return [verdict.status for verdict in verdicts]
