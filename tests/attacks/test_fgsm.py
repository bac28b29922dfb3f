import pytest
import torch
from torch import nn

from rightreasons.attacks import FGSM, PGD


@pytest.mark.parametrize(("norm", "dual"), [("linf", 1), ("l2", 2)])
def test_nothing_in_the_ball_is_worse_for_a_linear_model_of_two_classes(norm, dual):
    net = nn.Linear(6, 2).double()
    x = torch.rand(200, 6, dtype=torch.float64)
    y = torch.arange(200) % 2
    found = FGSM(epsilon=0.2, norm=norm, valid_range=None)(net, x, y)
    steepest = (net.weight[0] - net.weight[1]).norm(p=dual).item()
    logits = net(x).detach()
    clean = logits.gather(1, y[:, None])[:, 0] - logits.gather(1, 1 - y[:, None])[:, 0]
    right = clean > 0  # the others are fooled where they stand
    torch.testing.assert_close(found.margin[right], clean[right] - 0.2 * steepest)
    assert torch.equal(found.fooled, clean < 0.2 * steepest)
    more = PGD(epsilon=0.2, norm=norm, valid_range=None, num_steps=10)(net, x, y)
    assert torch.equal(more.fooled, found.fooled)


def test_is_one_signed_step():
    net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    x = torch.rand(20, 6, dtype=torch.float64)
    with torch.no_grad():
        y = net(x).argmax(dim=1)
    found = FGSM(epsilon=0.01, valid_range=None)(net, x, y)
    leaf = x.clone().requires_grad_()
    nn.functional.cross_entropy(net(leaf), y, reduction="sum").backward()
    worse = (found.x != x).any(dim=1)
    assert worse.sum() > 10
    torch.testing.assert_close(found.x[worse], (x + 0.01 * leaf.grad.sign())[worse])
