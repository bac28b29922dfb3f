import copy

import pytest
import torch
from tests.reference import attacks as slow_attacks
from tests.reference import density as slow
from torch import nn

import rightreasons as rr
from rightreasons.datasets import Card, InMemory
from rightreasons.objectives import AdversarialTraining, CrossEntropy


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_equals_its_slow_twin(tiny_net, tiny_batch, norm):
    tiny_net.eval()
    settings = {"epsilon": 0.2, "norm": norm, "num_steps": 3, "step_size": 0.1}
    term = AdversarialTraining(**settings, random_start=False, valid_range=(0.0, 1.0))
    points = [
        slow_attacks.pgd_path(tiny_net, x, y, x, epsilon=0.2, norm=norm, lengths=[0.1] * 3)[-1]
        for x, y in zip(tiny_batch.x, tiny_batch.y.tolist(), strict=True)
    ]
    expected = slow.attacked_loss(tiny_net, tiny_batch, points)
    ours = term(rr.Probe(tiny_net, tiny_batch))
    expected = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-9)
    assert (ours > CrossEntropy()(rr.Probe(tiny_net, tiny_batch))).all()


def test_the_pass_on_attacked_inputs_is_the_tasks(tiny_batch):
    """Batch statistics of the attacked batch; running ones of the samples alone."""
    net = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(32), nn.Linear(32, 3)).double()
    term = AdversarialTraining(epsilon=0.2, num_steps=1, random_start=False)
    plain, twin = copy.deepcopy(net), copy.deepcopy(net)
    plain(tiny_batch.x)
    losses = term(rr.Probe(net, tiny_batch))
    for ours, theirs in zip(net.buffers(), plain.buffers(), strict=True):
        assert torch.equal(ours, theirs)
    probe = rr.Probe.at_test_time(plain, tiny_batch, needs_gradient=True, create_graph=False)
    attacked = tiny_batch.x + 0.2 * probe.gradient("loss").sign()
    expected = nn.functional.cross_entropy(twin(attacked), tiny_batch.y, reduction="none")
    torch.testing.assert_close(losses, expected)


def test_takes_the_valid_range_from_the_data(tiny_net, tiny_batch):
    data = InMemory(tiny_batch, Card(valid_range=(0.25, 0.75)))
    term = AdversarialTraining(epsilon=0.5)
    assert term.ball.valid_range is None
    term.prepare(data, num_passes=1)
    assert term.ball.valid_range == (0.25, 0.75)
    own = AdversarialTraining(valid_range=(0.0, 1.0))
    own.prepare(data, num_passes=1)
    assert own.ball.valid_range == (0.0, 1.0)


def test_class_weights_weigh(tiny_net, tiny_batch):
    tiny_net.eval()
    plain, weighted = (
        AdversarialTraining(random_start=False, class_weights=weights)(
            rr.Probe(tiny_net, tiny_batch)
        )
        for weights in (None, [1.0, 2.0, 0.5])
    )
    factors = torch.tensor([1.0, 2.0, 0.5]).double()[tiny_batch.y]
    torch.testing.assert_close(weighted, factors * plain)


def test_training_with_it_makes_a_model_robust():
    """Twenty features tell the label faintly and surely, one plainly and nearly always."""
    torch.manual_seed(0)
    y = torch.arange(200) % 2
    sign = 2.0 * y - 1
    plain = torch.where(torch.rand(200) < 0.9, sign, -sign)
    faint = 0.1 * sign[:, None].expand(200, 20)
    batch = rr.Batch(x=torch.cat([faint, plain[:, None]], dim=1), y=y)
    shares = {}
    for name, recipe in {"erm": rr.recipes.erm(), "at": rr.recipes.at_pgd(epsilon=0.2)}.items():
        net = nn.Linear(21, 2)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
        for _ in range(100):
            loss = recipe(net, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        attack = rr.attacks.PGD(epsilon=0.2, valid_range=None)
        shares[name] = 1 - attack(net, batch.x, batch.y).fooled.double().mean().item()
    assert shares["at"] > 0.85 > shares["erm"]


def test_settings_are_checked():
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `norm` to be 'linf' or 'l2'"):
        AdversarialTraining(norm="l1")
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `step_size` to be a finite"):
        AdversarialTraining(step_size=0)
