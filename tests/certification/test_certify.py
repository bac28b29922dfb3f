import copy
import itertools
import random
import sys

import numpy as np
import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons import bounds
from rightreasons.certification import model_digest
from rightreasons.certification.certify import CertificationSettings, certify_batch
from rightreasons.datasets import Card, InMemory
from rightreasons.errors import (
    CertificateError,
    InvalidBatchError,
    InvalidSettingError,
    UnsupportedLayerError,
)

FEW = {"num_steps": 3, "num_restarts": 1}


def statuses(result):
    """The statuses of a certificate, or of a batch of one."""
    verdicts = result.samples if isinstance(result, rr.Certificate) else result.verdicts
    return [verdict.status for verdict in verdicts]


@pytest.mark.parametrize("epsilon", [0.05, 0.4, None])
@pytest.mark.parametrize("hidden", [(), (8,), (6, 6)])
def test_what_is_verified_cannot_be_changed(net_of, batch_of, hidden, epsilon):
    for seed in range(3):
        net, batch = net_of(seed, hidden=hidden), batch_of(seed)
        certificate = rr.certify(net, batch, epsilon=epsilon, valid_range=(0, 1))
        sure = torch.tensor([status in ("verified", "nothing") for status in statuses(certificate)])
        shares = torch.linspace(0, 1, 9)
        for first, second in itertools.product(shares, shares):
            share = torch.where(torch.arange(6) % 2 == 0, first, second)
            reach = 1.0 if epsilon is None else epsilon
            lower = (batch.x - reach).clamp(min=0)
            upper = (batch.x + reach).clamp(max=1)
            x = torch.where(batch.mask > 0, torch.lerp(lower, upper, share), batch.x)
            same = net(x).argmax(dim=1) == net(batch.x).argmax(dim=1)
            assert same[sure].all()


def test_a_linear_model_leaves_nothing_unknown(net_of, batch_of):
    for seed in range(5):
        net, batch = net_of(seed, hidden=()), batch_of(seed, size=60)
        assert "unknown" not in statuses(rr.certify(net, batch, epsilon=0.3))


def test_a_model_that_does_not_read_the_masked_part_is_verified_over_the_full_range():
    data = rr.datasets.decoy_digits(seed=0).test
    taken = data.take(torch.arange(30))
    torch.manual_seed(0)
    net = rr.models.mlp(inputs=196, hidden=(12,), classes=10)
    columns = (taken.mask != 0).any(dim=0).flatten().nonzero().flatten()
    first = next(module for module in net.modules() if isinstance(module, nn.Linear))
    first.weight.data[:, columns] = 0
    summary = rr.certify(net, taken, epsilon=None, valid_range=(0, 1)).summary
    assert summary["shares"]["verified"] == 1
    assert summary["loss_gradient"]["proved"]["max"] < 1e-6
    first.weight.data[:, columns] = 20 * torch.randn(12, len(columns))
    summary = rr.certify(net, taken, epsilon=None, valid_range=(0, 1)).summary
    assert summary["shares"]["verified"] < 0.1
    assert summary["shares"]["refuted"] > 0.8


def test_bounds_do_not_depend_on_the_batch_size(net_of, batch_of):
    net, batch = net_of(), batch_of()
    whole, parts = (rr.certify(net, batch, epsilon=0.2, batch_size=size) for size in (50, 3))
    assert [v.index for v in whole.samples] == [v.index for v in parts.samples] == list(range(20))
    for one, other in zip(whole.samples, parts.samples, strict=True):
        assert (one.status == "verified") == (other.status == "verified")
        for name in ("margin_proved", "loss_gradient_proved", "logit_gradient_proved"):
            expected = getattr(one, name)
            found = getattr(other, name)
            assert found == (None if expected is None else pytest.approx(expected, rel=1e-5))


def test_masks_of_a_convolutional_net_may_lie_anywhere():
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 64, 3)
    )
    mask = torch.zeros(4, 1, 8, 8)
    for number in range(4):  # a corner each
        mask[number, :, slice(-2, None) if number % 2 else slice(2)] = 1
        mask[number, :, :, slice(2, None) if number // 2 else slice(-2)] = 0
    x, y = torch.rand(4, 1, 8, 8), torch.arange(4) % 3
    batch = rr.Batch(x=x, y=y, mask=mask, index=torch.arange(4))
    whole, parts = (
        rr.certify(net, batch, epsilon=0.1, valid_range=(0, 1), batch_size=size) for size in (4, 1)
    )
    for one, other in zip(whole.samples, parts.samples, strict=True):
        assert one.status == other.status
        assert one.loss_gradient_proved == pytest.approx(other.loss_gradient_proved, rel=1e-9)


def test_the_same_seed_gives_the_same_certificate(net_of, batch_of):
    one, again = (rr.certify(net_of(), batch_of(), epsilon=0.3, batch_size=7) for _ in range(2))
    assert one == again
    other = rr.certify(net_of(), batch_of(), epsilon=0.3, batch_size=7, seed=1)
    assert other.settings["seed"] == 1
    assert [v.margin_proved for v in other.samples] == [v.margin_proved for v in one.samples]


def test_says_of_which_model_and_data_it_is(net_of, batch_of):
    net, data = (
        net_of(),
        InMemory(batch_of(), Card(name="numbers", groups=("a", "b", "c"), valid_range=(0, 1))),
    )
    certificate = rr.certify(net, data, epsilon=None, method="ibp", **FEW)
    assert certificate.model_sha256 == model_digest(net.state_dict())
    assert certificate.data_sha256 == data.digest()
    assert (certificate.data, certificate.groups) == ("numbers", ("a", "b", "c"))
    assert certificate.settings == {
        "epsilon": None,
        "valid_range": (0.0, 1.0),
        "method": "ibp",
        "batch_size": 250,
        "num_steps": 3,
        "num_restarts": 1,
        "seed": 0,
    }
    assert set(certificate.versions) == {"rightreasons", "torch", "numpy", "python"}
    assert certificate.summary["worst_group"]["verified"]["group"] in "abc"


def test_the_valid_range_is_the_card_s_unless_given(net_of, batch_of):
    net, data = net_of(), InMemory(batch_of(), Card(valid_range=(0.0, 3.0)))
    default = rr.certify(net, data, epsilon=None, **FEW)
    given = rr.certify(net, data, epsilon=None, valid_range=(0, 1), **FEW)
    assert (default.settings["valid_range"], given.settings["valid_range"]) == ((0, 3), (0, 1))
    assert default.summary["counts"]["verified"] < given.summary["counts"]["verified"]


def test_only_a_few_counterexamples_are_kept(net_of, batch_of):
    net, batch = net_of(scale=4.0), batch_of(size=60)
    certificate = rr.certify(net, batch, epsilon=None, valid_range=(0, 1), batch_size=16)
    assert certificate.summary["counts"]["refuted"] > 10
    assert len(certificate.counterexamples) == 10


def moody_net():
    """Layers that mind the mode; one is in test mode already; one gradient is there already."""
    net = nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1),
        nn.BatchNorm2d(3),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Dropout(0.5),
        nn.Flatten(),
        nn.Linear(12, 3),
    )
    net[4].eval()
    net[1].running_mean.uniform_(-0.2, 0.2)
    net[0].weight.grad = torch.ones_like(net[0].weight)
    return net


def fingerprint(net):
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in net.modules()]
    return {
        "modes": [module.training for module in net.modules()],
        "inplace": [getattr(module, "inplace", None) for module in net.modules()],
        "state": [value.tolist() for value in net.state_dict().values()],
        "grad": [None if p.grad is None else p.grad.tolist() for p in net.parameters()],
        "requires_grad": [parameter.requires_grad for parameter in net.parameters()],
        "hooks": hooks,
        "torch": torch.get_rng_state().tolist(),
        "numpy": np.asarray(np.random.get_state()[1]).tolist(),
        "python": random.getstate(),
        "grad mode": torch.is_grad_enabled(),
    }


def image_batch():
    mask = torch.zeros(6, 1, 4, 4)
    mask[:, :, 0, 0] = 1
    mask[1] *= 0.5
    return rr.Batch(x=torch.rand(6, 1, 4, 4), y=torch.tensor([0, 1, 2, 0, 1, 2]), mask=mask)


@pytest.mark.parametrize("training", [True, False])
def test_nothing_is_touched(training):
    net, batch = moody_net(), image_batch()
    if not training:
        net.eval()
    before, x = fingerprint(net), batch.x.clone()
    certificate = rr.certify(net, batch, epsilon=0.1, batch_size=4)
    assert fingerprint(net) == before
    assert torch.equal(batch.x, x) and not batch.x.requires_grad
    assert rr.certify(net.eval(), batch, epsilon=0.1, batch_size=4) == certificate
    assert certificate.model_sha256 == model_digest(net.state_dict())


def test_a_wrapped_model_is_the_model(net_of, batch_of):
    net = net_of()
    wrapped = rr.certify(nn.DataParallel(net), batch_of(), epsilon=0.1, **FEW)
    assert wrapped == rr.certify(net, batch_of(), epsilon=0.1, **FEW)


def test_layers_without_bounds_are_refused():
    class Odd(nn.Module):
        def forward(self, x):
            return torch.sort(x, dim=1).values

    net = nn.Sequential(nn.Linear(6, 3), Odd())
    batch = rr.Batch(x=torch.rand(2, 6), y=torch.tensor([0, 1]), mask=torch.ones(2, 6))
    with pytest.raises(UnsupportedLayerError, match="sort"):
        rr.certify(net, batch, epsilon=0.1)


def test_a_model_that_gives_nan(net_of, batch_of):
    net = net_of()
    next(net.parameters()).data.fill_(torch.nan)
    with pytest.raises(CertificateError, match="Expected finite logits"):
        rr.certify(net, batch_of(), epsilon=0.1)


def test_data_without_masks(net_of, batch_of):
    with pytest.raises(InvalidBatchError, match="Expected data with masks .* to certify"):
        rr.certify(net_of(), batch_of().replace(mask=None, annotated=None), epsilon=0.1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epsilon": 0.0}, "Expected `epsilon` to be a finite number above 0"),
        ({"epsilon": -1}, "Expected `epsilon` to be a finite number above 0"),
        ({"method": "lp"}, "Expected `method` to be 'ibp' or 'crown' or 'auto', but got 'lp'"),
        ({"batch_size": 0}, "Expected `batch_size` to be a whole number from 1"),
        ({"num_steps": -1}, "Expected `num_steps` to be a whole number from 0"),
        ({"num_restarts": 0}, "Expected `num_restarts` to be a whole number from 1"),
        ({"seed": -1}, "Expected `seed` to be a whole number from 0"),
        ({"valid_range": (1, 0)}, "Expected `valid_range` to be a smallest and a largest"),
    ],
)
def test_settings_out_of_range(net_of, batch_of, settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        rr.certify(net_of(), batch_of(), **{"epsilon": 0.1, **settings})


def test_a_bar_is_shown_if_wanted(net_of, batch_of, capsys):
    rr.certify(net_of(), batch_of(), epsilon=0.1, progress=True, **FEW)
    assert "Certifying" in capsys.readouterr().err
    rr.certify(net_of(), batch_of(), epsilon=0.1, **FEW)
    assert capsys.readouterr().err == ""


module = sys.modules["rightreasons.certification.certify"]  # the package's `certify` hides it

SETTINGS = {
    "epsilon": 0.3,
    "valid_range": (0.0, 1.0),
    "method": "auto",
    "batch_size": 20,
    "num_steps": 5,
    "num_restarts": 2,
    "seed": 0,
}


def certify_small(net, batch, **settings):
    """The result for one batch."""
    return certify_batch(
        net, copy.deepcopy(net).double(), batch, CertificationSettings(**{**SETTINGS, **settings})
    )


def test_every_sample_has_its_verdict(net_of, batch_of):
    net, batch = net_of(), batch_of()
    found = certify_small(net, batch)
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
    found = certify_small(net_of(), batch.replace(mask=torch.zeros_like(batch.mask)))
    assert {verdict.status for verdict in found.verdicts} == {"nothing"}
    assert found.counterexamples == []


def test_counterexamples_change_the_prediction(net_of, batch_of):
    net, batch = net_of(), batch_of()
    found = certify_small(net, batch)
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
    honest = module.prove_margin, module.bound_gradient

    def prove_margin(region, rows, *, method):
        margins.append((method, len(rows)))
        return honest[0](region, rows, method=method)

    def bound_gradient(region, target, *, method):
        gradients.append(method)
        return honest[1](region, target, method=method)

    monkeypatch.setattr(module, "prove_margin", prove_margin)
    monkeypatch.setattr(module, "bound_gradient", bound_gradient)
    net, batch = net_of(hidden=(8, 8, 8)), batch_of()
    plain = statuses(certify_small(net, batch, method="ibp"))
    margins.clear()
    gradients.clear()
    found = statuses(certify_small(net, batch, method=method))
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
        certify_small(net_of(), batch_of(), epsilon=None)
    with pytest.raises(CertificateError, match="no larger loss of margin than was proved"):
        certify_small(net_of(scale=0.1), batch_of(), epsilon=1e-3)


def test_a_wrong_proof_of_a_gradient_is_refused(net_of, batch_of, monkeypatch):
    honest = module.masked_gradient_bound

    def optimist(region, interval):
        return 0.5 * honest(region, interval)

    monkeypatch.setattr(module, "masked_gradient_bound", optimist)
    with pytest.raises(CertificateError, match="no larger gradient of the loss than was proved"):
        certify_small(net_of(), batch_of(), epsilon=1e-3)


@pytest.mark.parametrize("part", ["mask", "index"])
def test_a_batch_that_lacks_something(net_of, batch_of, part):
    with pytest.raises(InvalidBatchError, match="Expected every batch to have masks and an index"):
        certify_small(net_of(), batch_of().replace(**{part: None}))


def test_large_nets_are_not_tightened_unasked(net_of, batch_of, monkeypatch):
    net, batch = net_of(hidden=(8, 8, 8)), batch_of()
    plain, tight = (certify_small(net, batch, method=method) for method in ("ibp", "crown"))
    assert certify_small(net, batch, method="auto").verdicts != plain.verdicts
    monkeypatch.setattr(module, "MOST_UNITS", 26)  # three times eight, and three logits: 27
    assert statuses(certify_small(net, batch, method="auto")) == statuses(plain)
    assert statuses(certify_small(net, batch, method="crown")) == statuses(tight)


def flip(module, inputs, output):
    return -output


def test_a_model_with_hooks_or_a_replaced_forward_is_refused(net_of, batch_of):
    net = net_of()
    handle = net.register_forward_hook(flip)
    with pytest.raises(UnsupportedLayerError, match="`model` .*has hooks that may change it"):
        rr.certify(net, batch_of(), epsilon=0.1)
    handle.remove()
    forward = net.forward
    net.forward = lambda x: -forward(x)
    with pytest.raises(UnsupportedLayerError, match="`model` .*its `forward` was replaced"):
        rr.certify(net, batch_of(), epsilon=0.1)


def test_a_batch_of_the_user_s_own_has_no_range_in_silence(net_of, batch_of):
    words = "Expected a `valid_range` for features that may take every valid value, but neither"
    for data in (batch_of(), InMemory(batch_of()), InMemory(batch_of(), Card(name="mine"))):
        with pytest.raises(InvalidSettingError, match=words):
            rr.certify(net_of(), data, epsilon=None, **FEW)
        assert rr.certify(net_of(), data, epsilon=0.1, **FEW).settings["valid_range"] is None
        told = rr.certify(net_of(), data, epsilon=None, valid_range=(-2, 2), **FEW)
        assert told.settings["valid_range"] == (-2, 2)


def test_data_outside_the_stated_range_are_refused(net_of, batch_of):
    batch = batch_of()
    standardised = batch.replace(x=4 * batch.x - 2)
    words = (
        r"Expected values from 0 to 1, the valid range, but got -1\.\S+ to 1\.\S+ State the range"
    )
    for settings in ({"valid_range": (0, 1)}, {"epsilon": 0.1, "valid_range": (0, 1)}):
        with pytest.raises(InvalidBatchError, match=words):
            rr.certify(net_of(), standardised, **{"epsilon": None, **settings})
    carded = InMemory(standardised, Card(valid_range=(0.0, 1.0)))
    with pytest.raises(InvalidBatchError, match=words):
        rr.certify(net_of(), carded, epsilon=None)


def test_without_a_range_features_move_by_epsilon_on_both_sides():
    net = nn.Linear(1, 2)
    net.weight.data = torch.tensor([[1.0], [-1.0]])
    net.bias.data = torch.tensor([0.5, -0.5])  # class 1 below -0.5
    batch = rr.Batch(x=torch.tensor([[-0.3]]), y=torch.tensor([0]), mask=torch.ones(1, 1))
    assert statuses(rr.certify(net, batch, epsilon=0.4, **FEW)) == ["refuted"]
