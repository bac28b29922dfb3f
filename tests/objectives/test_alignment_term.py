import pytest
import torch

import rightreasons as rr
from rightreasons.objectives import AlignmentTerm, CosineAlignment, L2Alignment


def test_settings_are_kept_and_checked():
    term = CosineAlignment(epsilon=0.1, perturbation="gaussian", num_samples=3, target="loss")
    assert isinstance(term, AlignmentTerm)
    assert (term.epsilon, term.num_samples, term.target, term.detach_source) == (0.1, 3, "loss", 1)
    for settings, words in {
        ("epsilon", 0.0): "Expected `epsilon`",
        ("perturbation", "normal"): "Expected `perturbation` to be 'uniform' or 'gaussian' or",
        ("num_samples", 0): "Expected `num_samples`",
        ("detach_source", 1): "Expected `detach_source` to be True or False",
    }.items():
        with pytest.raises(rr.errors.InvalidSettingError, match=words):
            L2Alignment(**dict([settings]))
    with pytest.raises(rr.errors.InvalidSettingError, match="to be 1 with perturbation='sign'"):
        L2Alignment(perturbation="sign", num_samples=2)


def test_a_detached_source_moves_only_the_gradient_nearby(tiny_net, tiny_batch):
    tiny_net.eval()
    parameters = list(tiny_net.parameters())
    x = tiny_batch.x.clone().requires_grad_()
    y = tiny_batch.y[:, None]
    (own,) = torch.autograd.grad(tiny_net(x).gather(1, y).sum(), x)
    torch.manual_seed(4)
    shift = torch.empty_like(x).uniform_(-0.5, 0.5)
    moved = (x.detach() + shift).requires_grad_()
    (near,) = torch.autograd.grad(tiny_net(moved).gather(1, y).sum(), moved, create_graph=True)
    expected = torch.autograd.grad((near - own).square().sum() / 6, parameters, allow_unused=True)
    torch.manual_seed(4)
    loss = L2Alignment(epsilon=0.5).as_objective()(tiny_net, tiny_batch)
    ours = torch.autograd.grad(loss.total, parameters, allow_unused=True)
    for left, right, weight in zip(ours, expected, parameters, strict=True):
        slopes = [torch.zeros_like(weight) if slope is None else slope for slope in (left, right)]
        torch.testing.assert_close(*slopes)
