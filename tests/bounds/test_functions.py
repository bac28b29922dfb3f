import pytest
import torch
from tests.reference import bounds as slow
from torch import nn

from rightreasons.bounds import (
    Box,
    functions,
    gradient_box,
    input_gradient_bounds,
    lowest_margins,
    margin_bounds,
    output_bounds,
    output_box,
)
from rightreasons.bounds.functions import log_sum_of_others, probability_ends, target_gradient
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Interval, Target

Y = torch.tensor([2, 0, 1])


def test_ends_belong_to_the_extreme_inputs_of_a_linear_model():
    model = nn.Linear(2, 1).double()
    model.weight.data = torch.tensor([[2.0, -1.0]]).double()
    model.bias.data.zero_()
    lower, upper = torch.zeros(1, 2).double(), torch.ones(1, 2).double()
    for method in ("ibp", "crown"):
        bounds = output_bounds(model, lower, upper, method=method)
        assert isinstance(bounds, Interval)
        torch.testing.assert_close(bounds.lower, torch.tensor([[-1.0]]).double())
        torch.testing.assert_close(bounds.upper, torch.tensor([[2.0]]).double())
        assert bounds.lower.item() <= -1 and bounds.upper.item() >= 2


def test_crown_sees_that_a_difference_cancels():
    class Same(nn.Module):
        def forward(self, x):
            return (x + 1) - x

    lower, upper = torch.zeros(1, 2), torch.ones(1, 2)
    loose = output_bounds(Same(), lower, upper, outward=False)
    tight = output_bounds(Same(), lower, upper, method="crown", outward=False)
    assert (loose.upper - loose.lower).tolist() == [[2, 2]]
    assert (tight.upper - tight.lower).tolist() == [[0, 0]]


def test_train_mode_is_bounded_as_at_test_time():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.9), nn.Linear(4, 2))
    x = torch.randn(5, 3)
    model.train()
    bounds = output_bounds(model, x, x, outward=False)
    torch.testing.assert_close(bounds.lower, model.eval()(x))


def test_outputs_need_not_be_logits():
    x = torch.randn(2, 1, 4, 4)
    assert output_bounds(nn.Conv2d(1, 2, 3), x, x).lower.shape == (2, 2, 2, 2)


def test_inference_mode_is_fine():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.randn(2, 3)
    with torch.inference_mode():
        for method in ("ibp", "crown"):
            bounds = output_bounds(model, x - 0.1, x + 0.1, method=method)
            assert bool((bounds.lower < bounds.upper).all())


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
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).double()
    x = torch.randn(3, 4, dtype=torch.float64)
    pairs = margin_bounds(model, x - 0.1, x + 0.1, Y)
    monkeypatch.setattr(functions, "_MOST_PAIRS", 0)
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


@pytest.mark.parametrize("target", Target)
@pytest.mark.parametrize("outward", [True, False])
def test_intervals_are_those_of_single_numbers(small_net, listed, small_box, target, outward):
    found = input_gradient_bounds(
        small_net, small_box.lower, small_box.upper, Y, target=target, outward=outward
    )
    for sample, label in enumerate(Y.tolist()):
        expected = torch.tensor(
            slow.input_gradient(listed, slow.intervals(small_box, sample), label, target.value)
        ).double()
        torch.testing.assert_close(found.lower[sample], expected[:, 0], rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(found.upper[sample], expected[:, 1], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("method", ["ibp", "crown"])
def test_columns_are_features_of_the_flattened_input(method):
    model = nn.Sequential(nn.Conv2d(1, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
    x, columns = torch.randn(3, 1, 3, 3), torch.tensor([7, 0, 2])
    ends = x - 0.1, x + 0.1
    whole = input_gradient_bounds(model, *ends, Y, method=method)
    part = input_gradient_bounds(model, *ends, Y, method=method, columns=columns)
    assert whole.lower.shape == x.shape and part.lower.shape == (3, 3)
    torch.testing.assert_close(part.lower, whole.lower.flatten(1)[:, columns])
    torch.testing.assert_close(part.upper, whole.upper.flatten(1)[:, columns])


def test_a_hidden_layer_is_an_input_like_any_other():
    tail = nn.Sequential(nn.ReLU(), nn.Linear(512, 3))
    x = torch.randn(3, 512)
    assert input_gradient_bounds(tail, x, x, Y, target="loss").upper.shape == (3, 512)


def test_outputs_are_those_of_single_intervals(small_net, listed, small_box):
    box = output_box(small_net, small_box)
    for sample in range(3):
        expected = slow.forward(listed, slow.intervals(small_box, sample))[-1]
        found = torch.tensor(slow.intervals(box, sample))
        torch.testing.assert_close(found, torch.tensor(expected))


@pytest.mark.parametrize("target", Target)
def test_gradients_are_those_of_single_intervals(small_net, listed, small_box, target):
    logits, gradient = gradient_box(small_net, small_box, Y, target=target)
    torch.testing.assert_close(logits.center, output_box(small_net, small_box).center)
    for sample, label in enumerate(Y.tolist()):
        expected = slow.input_gradient(
            listed, slow.intervals(small_box, sample), label, target.value
        )
        found = torch.tensor(slow.intervals(gradient, sample))
        torch.testing.assert_close(found, torch.tensor(expected))


def test_crown_tightens_what_is_known_of_activations(small_net, small_box):
    loose, tight = (
        gradient_box(small_net, small_box, Y, target="loss", method=method)
        for method in ("ibp", "crown")
    )
    for wide, narrow in zip(loose, tight, strict=True):
        assert narrow.radius.sum().item() < wide.radius.sum().item()
    alone = output_box(small_net, small_box, method="crown")
    torch.testing.assert_close(alone.radius, tight[0].radius)


def test_results_have_a_radius_with_all_axes():
    point = Box.exact(torch.ones(2, 3))
    model = torch.nn.Linear(3, 2)
    y = torch.tensor([0, 1])
    assert output_box(model, point).radius.shape == (2, 2)
    assert gradient_box(model, point, y, target="logit")[1].radius.shape == (2, 3)


def test_other_methods_are_refused(small_net, small_box):
    with pytest.raises(InvalidSettingError, match="Expected `method`"):
        output_box(small_net, small_box, method="exact")


@pytest.mark.parametrize("num_classes", [2, 3, 7])
def test_probabilities_are_those_of_single_intervals(num_classes):
    box = Box(
        3 * torch.randn(4, num_classes, dtype=torch.float64),
        torch.rand(4, num_classes, dtype=torch.float64),
    )
    low, high = probability_ends(box)
    for sample in range(4):
        expected = slow.softmax(slow.intervals(box, sample))
        found = torch.stack([low[sample], high[sample]], dim=1)
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_large_logits_and_ties_give_no_nan():
    logits = torch.tensor([[1e4, -1e4, 0.0], [5.0, 5.0, 5.0], [1e4, 1e4, -1e4]], requires_grad=True)
    others = log_sum_of_others(logits)
    expected = [
        [torch.logsumexp(row[[j for j in range(3) if j != k]], 0) for k in range(3)]
        for row in logits.detach()
    ]
    torch.testing.assert_close(others, torch.tensor(expected))
    others.sum().backward()
    assert bool(torch.isfinite(logits.grad).all())


def test_outward_ends_hold_what_softmax_computes():
    logits = 20 * torch.randn(200, 10)
    low, high = probability_ends(Box.exact(logits), outward=True)
    shares = torch.softmax(logits, dim=1)
    assert bool((shares >= low).all() and (shares <= high).all())
    assert bool((low >= 0).all() and (high <= 1).all())


FOUR = torch.tensor([0, 1, 2, 1])


@pytest.mark.parametrize("target", Target)
@pytest.mark.parametrize("outward", [True, False])
def test_boxes_are_those_of_single_intervals(target, outward):
    logits = Box(torch.randn(4, 3, dtype=torch.float64), torch.rand(4, 3, dtype=torch.float64))
    box = target_gradient(logits, FOUR, target, outward=outward)
    box = Box(box.center, box.full_radius())
    for sample, label in enumerate(FOUR.tolist()):
        expected = slow.start(slow.intervals(logits, sample), label, target)
        torch.testing.assert_close(
            torch.tensor(slow.intervals(box, sample)), torch.tensor(expected), rtol=1e-6, atol=1e-9
        )


@pytest.mark.parametrize("target", Target)
def test_at_a_point_it_is_autograd(target):
    logits = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(target(logits, FOUR).sum(), logits)
    box = target_gradient(Box(logits.detach(), torch.zeros(4, 3)), FOUR, target)
    torch.testing.assert_close(box.center, gradient)
    assert float(box.radius.max()) < 1e-15


def test_the_gradient_of_a_logit_is_known_exactly():
    logits = Box(torch.randn(4, 3), torch.ones(4, 3))
    assert target_gradient(logits, FOUR, Target.LOGIT).is_exact


def test_a_tie_for_second_place_is_left_open():
    logits = Box.exact(torch.tensor([[3.0, 1.0, 1.0]]))
    box = target_gradient(logits, torch.tensor([0]), Target.MARGIN)
    assert box.lower.tolist() == [[1, -1, -1]] and box.upper.tolist() == [[1, 0, 0]]
