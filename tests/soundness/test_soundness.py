"""A short campaign in every run of the tests, and checks that a campaign would notice faults."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from rightreasons.bounds import METHODS
from rightreasons.bounds.curve import Curve, curve
from tests.soundness.bounds import check_net
from tests.soundness.campaign import Campaign, run_campaign
from tests.soundness.certificates import check_certificates
from tests.soundness.nets import all_kinds
from tests.soundness.traps import TRAPS, check_trap

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:Using padding='same'"),  # PyTorch makes a padded copy
]
SEED = 1


def test_no_value_escapes_from_bounds_of_any_kind_by_any_method():
    kinds = all_kinds()
    campaign = run_campaign(seed=SEED, num_nets=2 * len(kinds), num_certified=3, effort=5)
    assert not campaign.escapes, campaign.escapes
    assert not campaign.broken and not campaign.refused
    assert not campaign.missing
    assert campaign.to_dict()["kinds by method"] == len(METHODS) * len(kinds)
    assert campaign.num_points > 50_000 and campaign.verified > 30
    assert campaign.nets["float32"] == campaign.nets["float64"] == len(kinds)


@pytest.mark.parametrize("name", TRAPS)
def test_no_construction_gets_a_false_certificate(name):
    assert check_trap(name) in ("refused", "right")


def test_a_net_is_the_same_for_the_same_seed_and_number():
    assert check_net(SEED, 3, effort=3) == check_net(SEED, 3, effort=3)
    assert check_certificates(SEED, 1, effort=3) == check_certificates(SEED, 1, effort=3)


def test_a_wrong_gradient_by_pytorch_is_told_from_a_wrong_rule():
    """Net 394 normalises a permuted view, for which PyTorch gives a wrong gradient."""
    finding = check_net(0, 394, effort=3)
    assert "BatchNorm2d" in finding.kinds and "Permute" in finding.kinds
    assert finding.num_points and not finding.escapes and finding.refused is None


@pytest.fixture
def wrong_tanh():
    """A rule that forgets where the slope of tanh is largest."""
    right = curve.dispatch(nn.Tanh)
    curve.register(nn.Tanh, lambda layer: Curve(torch.tanh, right(layer).slope))
    yield
    curve.register(nn.Tanh, right)


@pytest.fixture
def wrong_silu():
    """A rule that takes SiLU for a function that never falls."""
    right = curve.dispatch(nn.SiLU)
    curve.register(nn.SiLU, lambda layer: Curve(functional.silu, right(layer).slope))
    yield
    curve.register(nn.SiLU, right)


@pytest.mark.parametrize(("fixture", "kind"), [("wrong_tanh", "Tanh"), ("wrong_silu", "SiLU")])
def test_a_wrong_rule_is_noticed(request, fixture, kind):
    request.getfixturevalue(fixture)
    kinds = all_kinds()
    campaign = Campaign(SEED)
    for turn in range(8):
        campaign.add_net(check_net(SEED, kinds.index(kind) + turn * len(kinds), effort=6))
    assert campaign.escapes and not campaign.is_sound
    assert f"python -m tests.soundness --seed {SEED} --net " in campaign.escapes[0]
