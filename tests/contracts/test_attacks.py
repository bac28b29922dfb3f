"""Output attacks beside one another, and beside Captum's, on a net that learned something."""

import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.attacks import FGSM, PGD, apgd_pair, strongest_of

RADII = {"linf": 0.1, "l2": 0.7}


@pytest.fixture(scope="module")
def learned():
    """A trained net, 800 samples of digits and their labels."""
    data = rr.datasets.decoy_digits(seed=0)
    torch.manual_seed(0)
    model = rr.models.mlp(inputs=14 * 14, hidden=(32,), classes=10)
    rr.fit(model, rr.recipes.erm(), data.train, epochs=8, batch_size=50, lr=5e-3, progress=False)
    batch = data.train.take(torch.arange(800))
    return model.eval(), batch.x, batch.y


def accuracy(model, x, y):
    with torch.no_grad():
        return float((model(x).argmax(dim=1) == y).float().mean())


@pytest.mark.filterwarnings("ignore:Input Tensor 0 did not already require gradients")
@pytest.mark.parametrize("norm", RADII)
def test_pgd_finds_what_captum_finds(norm, learned):
    captum = pytest.importorskip("captum.robust", reason="captum, the oracle, is not installed")
    model, x, y = learned
    loss = nn.CrossEntropyLoss(reduction="none")
    peer = captum.PGD(model, loss, lower_bound=0.0, upper_bound=1.0)
    for fraction in (0.3, 0.6, 1.0):
        epsilon = fraction * RADII[norm]
        theirs = peer.perturb(
            x,
            radius=epsilon,
            step_size=epsilon / 8,
            step_num=20,
            target=y,
            norm={"linf": "Linf", "l2": "L2"}[norm],
        )
        attack = PGD(epsilon=epsilon, norm=norm, step_size=epsilon / 8, random_start=False)
        ours = attack(model, x, y)
        result, expected = accuracy(model, ours.x, y), accuracy(model, theirs, y)
        if norm == "linf":
            assert result == pytest.approx(expected, abs=0.005)
        else:  # Captum goes by the gradient's sign in an l2 ball too, and gets less far
            assert result <= expected + 0.005
        assert 0.02 < result < accuracy(model, x, y) - 0.02


@pytest.mark.parametrize("norm", RADII)
def test_stronger_attacks_fool_no_fewer(norm, learned):
    model, x, y = learned
    epsilon = RADII[norm] / 2
    pgd = PGD(epsilon=epsilon, norm=norm, num_steps=20, num_restarts=10)(model, x, y).fooled
    pair = apgd_pair(epsilon=epsilon, norm=norm, num_steps=20)
    apgd = strongest_of(pair, model, x, y).fooled
    assert int(FGSM(epsilon=epsilon, norm=norm)(model, x, y).fooled.sum()) <= int(pgd.sum())
    assert int(pgd.sum()) <= int(apgd.sum())
