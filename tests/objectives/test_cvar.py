import pytest
import torch
from tests.reference.strategies import cvar
from tests.reference.terms import cross_entropy

import rightreasons as rr
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives import CVAR


@pytest.mark.parametrize("alpha", [0.1, 0.25, 0.5, 1.0])
def test_the_mean_equals_the_slow_twin(alpha, tiny_net, tiny_batch):
    tiny_net.eval()
    losses = CVAR(alpha=alpha)(rr.Probe(tiny_net, tiny_batch))
    plain = cross_entropy(tiny_net(tiny_batch.x), tiny_batch.y)
    assert losses.mean().item() == pytest.approx(cvar(plain, alpha))


def test_a_share_of_one_is_cross_entropy(tiny_net, tiny_batch):
    tiny_net.eval()
    ours = rr.recipes.cvar_dro(alpha=1.0)(tiny_net, tiny_batch).total
    torch.testing.assert_close(ours, rr.recipes.erm()(tiny_net, tiny_batch).total)


def test_samples_beyond_the_share_count_nothing(tiny_net, tiny_batch):
    losses = CVAR(alpha=0.4)(rr.Probe(tiny_net.eval(), tiny_batch))
    assert (losses > 0).sum() == 3  # 2.4 samples


@pytest.mark.parametrize("alpha", [0, 1.5, True, "half"])
def test_bad_settings(alpha):
    with pytest.raises(InvalidSettingError, match="Expected `alpha` to be a share above 0"):
        CVAR(alpha=alpha)
