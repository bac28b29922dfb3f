import pytest
import torch
from tests.reference import terms

import rightreasons as rr
from rightreasons.objectives import R3, SmoothR3


def test_a_soft_mask_enters_squared(tiny_net, tiny_batch):
    tiny_net.eval()
    soft = tiny_batch.replace(mask=0.5 * tiny_batch.mask)
    full = R3()(rr.Probe(tiny_net, tiny_batch, needs_gradient=True))
    half = R3()(rr.Probe(tiny_net, soft, needs_gradient=True))
    torch.testing.assert_close(half, full / 4)


def test_ross_sums_the_log_probabilities_of_all_classes(tiny_net, tiny_batch):
    tiny_net.eval()
    x = tiny_batch.x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(tiny_net(x).log_softmax(dim=1).sum(), x)
    expected = (tiny_batch.mask * gradient).square().flatten(1).sum(dim=1)
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient=True)
    torch.testing.assert_close(R3(target="log_probabilities")(probe), expected)


def test_being_sure_of_the_label_meets_the_penalty_of_the_loss_but_not_of_the_margin():
    mask = torch.tensor([[1.0, 0.0]])
    batch = rr.Batch(x=torch.ones(1, 2), y=torch.tensor([0]), mask=mask)
    found = {"loss": [], "margin": []}
    for reliance in (1.0, 20.0):
        net = torch.nn.Linear(2, 2, bias=False)
        with torch.no_grad():
            net.weight.copy_(torch.tensor([[reliance, 0.0], [0.0, 0.0]]))
        probe = rr.Probe(net, batch, needs_gradient=True)
        for target, values in found.items():
            values.append(R3(target=target)(probe).item())
    assert found["loss"][1] < 1e-6 < found["loss"][0]
    assert found["margin"][1] == 400 * found["margin"][0]


def test_smooth_r3_equals_its_slow_twin(tiny_net, tiny_batch):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient="inside")
    torch.manual_seed(5)
    ours = SmoothR3(num_samples=2, epsilon=0.3)(probe)
    torch.manual_seed(5)
    noise = 0.3 * (2 * torch.rand(2, *tiny_batch.x.shape, dtype=torch.float64) - 1)
    expected = torch.tensor(terms.smooth_r3(tiny_net, tiny_batch, noise)).double()
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("noise", ["uniform", "gaussian"])
def test_without_noise_it_is_r3(tiny_net, tiny_batch, noise):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient="inside")
    smooth = SmoothR3(epsilon=1e-12, noise=noise)(probe)
    torch.testing.assert_close(smooth, R3()(probe), rtol=1e-8, atol=1e-12)


def test_settings_are_checked():
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `noise` to be 'uniform' or"):
        SmoothR3(noise="normal")
