"""What every attack on predictions promises."""

import copy

import pytest
import torch
from torch import nn

from rightreasons.attacks import APGD, FGSM, PGD
from rightreasons.errors import InvalidBatchError, InvalidSettingError

# name: how to make it for a norm and a radius
ATTACKS = {
    "fgsm": lambda **settings: FGSM(**settings),
    "pgd": lambda **settings: PGD(num_steps=5, num_restarts=2, **settings),
    "pgd cosine": lambda **settings: PGD(num_steps=5, schedule="cosine", **settings),
    "apgd": lambda **settings: APGD(num_steps=8, num_restarts=2, **settings),
    "apgd dlr": lambda **settings: APGD(num_steps=5, loss="targeted_dlr", **settings),
}
BALLS = {"linf": 0.1, "l2": 0.4}


@pytest.fixture(params=ATTACKS)
def make(request):
    return ATTACKS[request.param]


@pytest.fixture(scope="module")
def trained():
    """A small net, trained a little, in train mode; 60 samples of four classes."""
    torch.manual_seed(0)
    x = torch.rand(60, 1, 4, 4)
    y = (x.flatten(1) - 0.5).matmul(torch.randn(16, 4)).argmax(dim=1)
    net = nn.Sequential(
        nn.Flatten(), nn.Linear(16, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 4)
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(40):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    optimizer.zero_grad()
    return net, x, y


@pytest.mark.parametrize("norm", BALLS)
def test_stays_in_ball_and_range_and_says_who_is_fooled(make, trained, norm):
    net, x, y = trained
    found = make(norm=norm, epsilon=BALLS[norm])(net, x, y)
    moves = (found.x - x).flatten(1)
    lengths = moves.abs().amax(dim=1) if norm == "linf" else moves.norm(dim=1)
    assert (lengths <= BALLS[norm] * (1 + 1e-5)).all()
    assert found.x.min() >= 0 and found.x.max() <= 1
    with torch.no_grad():
        logits = copy.deepcopy(net).eval()(found.x)
        before = copy.deepcopy(net).eval()(x).argmax(dim=1)
    assert torch.equal(found.fooled, logits.argmax(dim=1) != y)
    own = logits.gather(1, y[:, None])[:, 0]
    others = logits.scatter(1, y[:, None], -torch.inf).amax(dim=1)
    torch.testing.assert_close(found.margin, own - others, rtol=1e-4, atol=1e-5)
    assert found.fooled.sum() > (before != y).sum()
    assert torch.equal(found.x[before != y], x[before != y])  # fooled where they stand
    assert not found.x.requires_grad


def test_leaves_model_and_samples_as_they_were(make, trained):
    net, x, y = trained
    net[1].bias.grad = torch.ones(12)
    state = {name: value.clone() for name, value in net.state_dict().items()}
    kept, random_state = x.clone(), torch.get_rng_state()
    make(epsilon=0.1)(net, x, y)
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())
    assert all(module.training for module in net.modules())
    assert torch.equal(net[1].bias.grad, torch.ones(12))
    assert all(p.grad is None for name, p in net.named_parameters() if name != "1.bias")
    assert torch.equal(x, kept) and not x.requires_grad
    assert torch.equal(torch.get_rng_state(), random_state)
    net[1].bias.grad = None


def test_does_not_depend_on_batch_or_gradient_mode(make, trained):
    net, x, y = trained
    attack = make(epsilon=0.1)
    whole = attack(net, x, y)
    attack.max_rows = 7
    with torch.no_grad():
        parts = attack(net, x, y)
    torch.testing.assert_close(parts.x, whole.x, rtol=0, atol=1e-4)
    assert torch.equal(parts.fooled, whole.fooled)
    some = torch.tensor([40, 3, 17])
    alone = attack(net, x[some], y[some], index=some)
    assert torch.equal(alone.fooled, whole.fooled[some])


def test_without_a_range_inputs_go_anywhere(make, trained):
    net, x, y = trained
    found = make(epsilon=0.3, valid_range=None)(net, x, y)
    assert found.x.min() < 0 or found.x.max() > 1


def test_no_samples_and_token_ids(make, trained):
    net, x, y = trained
    found = make(epsilon=0.1)(net, x[:0], y[:0])
    assert found.x.shape == (0, 1, 4, 4) and found.fooled.shape == (0,)
    with pytest.raises(InvalidBatchError, match="Expected floating point `x` to move"):
        make(epsilon=0.1)(net, x.long(), y)


def test_settings_are_checked():
    with pytest.raises(InvalidSettingError, match="Expected `num_restarts` to be a whole number"):
        PGD(epsilon=0.1, num_restarts=0)
    with pytest.raises(InvalidSettingError, match="Expected `seed` to be a whole number from 0"):
        APGD(epsilon=0.1, seed=-1)
    with pytest.raises(InvalidSettingError, match="Expected `max_rows` to be a whole number"):
        FGSM(epsilon=0.1, max_rows=0)
