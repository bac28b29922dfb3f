import sys

import pytest
import torch
from tests.reference import bounds as slow
from torch import nn

from rightreasons.bounds import lowest_margins, margin_bounds, output_bounds

Y = torch.tensor([2, 0, 1])


def test_margins_are_those_of_single_intervals(small_net, listed, small_box):
    found = margin_bounds(small_net, small_box.lower, small_box.upper, Y, outward=False)
    for sample, label in enumerate(Y.tolist()):
        expected = slow.margins(listed, slow.intervals(small_box, sample), label)
        torch.testing.assert_close(found[sample], torch.tensor(expected).double())


def test_merging_is_tighter_than_the_difference_of_bounds(small_net, small_box):
    ends = small_box.lower, small_box.upper
    merged = margin_bounds(small_net, *ends, Y)
    logits = output_bounds(small_net, *ends)
    apart = logits.lower.gather(1, Y[:, None]) - logits.upper
    apart = apart.scatter(1, Y[:, None], 0.0)
    assert bool((merged >= apart - 1e-9).all())
    assert float((merged - apart).detach().sum()) > 0.01


def test_other_last_layers_have_the_difference():
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh()).double()
    x = torch.randn(3, 4, dtype=torch.float64)
    margins = margin_bounds(model, x, x, Y)
    with torch.no_grad():
        logits = model(x)
    torch.testing.assert_close(margins, logits.gather(1, Y[:, None]) - logits)


@pytest.mark.parametrize("method", ["ibp", "crown"])
def test_the_own_class_has_zero_and_verified_samples_keep_their_prediction(method):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    x = torch.randn(40, 4)
    y = model(x).argmax(dim=1)
    margins = margin_bounds(model, x - 0.05, x + 0.05, y, method=method)
    assert float(margins.gather(1, y[:, None]).detach().abs().max()) == 0
    verified = (margins.scatter(1, y[:, None], torch.inf) > 0).all(dim=1)
    assert 0 < int(verified.sum()) < 40
    for _ in range(50):
        moved = x + 0.05 * (2 * torch.rand_like(x) - 1)
        assert torch.equal(model(moved).argmax(dim=1)[verified], y[verified])


def test_many_classes_are_compared_class_by_class(monkeypatch):
    module = sys.modules["rightreasons.bounds.functions"]  # the function has its name
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).double()
    x = torch.randn(3, 4, dtype=torch.float64)
    pairs = margin_bounds(model, x - 0.1, x + 0.1, Y)
    monkeypatch.setattr(module, "_MOST_PAIRS", 0)
    torch.testing.assert_close(margin_bounds(model, x - 0.1, x + 0.1, Y), pairs)


@pytest.mark.parametrize("method", ["ibp", "crown"])
def test_margins_inside_a_loss_have_gradients(small_net, small_box, method):
    margins = lowest_margins(small_net, small_box, Y, method=method)
    checked = margin_bounds(small_net, *small_box.ends(), Y, method=method, outward=False)
    assert bool((checked >= margins - 1e-9).all())
    if method == "ibp":
        torch.testing.assert_close(margins, checked)
    nn.functional.cross_entropy(-margins, Y).backward()
    assert all(bool(parameter.grad.abs().sum() > 0) for parameter in small_net.parameters())


def test_negated_margins_are_worst_case_logits(small_net, small_box):
    worst = nn.functional.cross_entropy(
        -lowest_margins(small_net, small_box, Y), Y, reduction="none"
    )
    for _ in range(100):
        x = small_box.center + small_box.radius * (2 * torch.rand(3, 4) - 1)
        losses = nn.functional.cross_entropy(small_net(x), Y, reduction="none")
        assert bool((losses <= worst + 1e-9).all())
