import pytest
import torch

import rightreasons as rr
from rightreasons.objectives import R3, AdvR4, CertR4, RandR4


def losses(term, net, batch):
    torch.manual_seed(0)
    return term(rr.Probe(net, batch, needs_gradient="inside"))


@pytest.mark.parametrize("form", ["gradient", "change"])
@pytest.mark.parametrize("norm", ["l1", "l2", "squared_l2", 3.0])
@pytest.mark.parametrize("target", ["loss", "logit", "margin", "logsumexp"])
def test_drawn_is_below_climbed_is_below_certified_on_every_sample(
    tiny_net, tiny_batch, form, norm, target
):
    tiny_net.eval()
    settings = {"epsilon": 0.2, "form": form, "norm": norm, "target": target}
    drawn = losses(RandR4(num_samples=4, **settings), tiny_net, tiny_batch)
    climbed = losses(AdvR4(num_samples=4, num_steps=5, **settings), tiny_net, tiny_batch)
    certified = losses(CertR4(**settings), tiny_net, tiny_batch)
    assert bool((drawn <= climbed * (1 + 1e-12)).all())
    assert bool((climbed <= certified * (1 + 1e-12)).all())
    if target == "loss":
        assert bool((drawn < climbed).any())
        assert bool((climbed < certified).all())


@pytest.mark.parametrize("term", [RandR4, AdvR4, CertR4])
def test_without_a_box_it_is_r3(term, tiny_net, tiny_batch):
    tiny_net.eval()
    point = losses(term(epsilon=1e-12), tiny_net, tiny_batch)
    torch.testing.assert_close(point, losses(R3(), tiny_net, tiny_batch), rtol=1e-8, atol=1e-12)
    still = losses(term(epsilon=1e-12, form="change", norm="l2"), tiny_net, tiny_batch)
    assert still.abs().max().item() < 1e-9


def test_an_unknown_form_is_refused():
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `form` to be 'gradient' or"):
        RandR4(form="gradients")
