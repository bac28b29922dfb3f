import pytest
import torch

import rightreasons as rr
from rightreasons.objectives import CrossEntropy, WeightDecay


def test_class_weights_multiply_and_do_not_divide(tiny_net, tiny_batch):
    probe = rr.Probe(tiny_net, tiny_batch)
    plain, weighted = CrossEntropy()(probe), CrossEntropy(class_weights=[1, 2, 3])(probe)
    torch.testing.assert_close(weighted, plain * torch.tensor([1.0, 2.0, 3.0, 1.0, 2.0, 3.0]))


def test_label_smoothing_mixes_in_the_mean_over_classes(tiny_net, tiny_batch):
    probe = rr.Probe(tiny_net, tiny_batch)
    uniform = -probe.logits.log_softmax(dim=1).mean(dim=1)
    expected = 0.8 * CrossEntropy()(probe) + 0.2 * uniform
    torch.testing.assert_close(CrossEntropy(label_smoothing=0.2)(probe), expected)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"label_smoothing": 1.0},
            "Expected `label_smoothing` to be a number from 0 to below 1, but got 1.0",
        ),
        ({"class_weights": [1.0, float("nan")]}, "finite numbers of at least 0"),
        ({"class_weights": ["a", "b"]}, "Expected `class_weights` to be a list of numbers"),
        (
            {"class_weights": [1.0, -1.0]},
            "`class_weights` to be finite numbers of at least 0",
        ),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(rr.errors.InvalidSettingError, match=words):
        CrossEntropy(**settings)


def test_wrong_number_of_class_weights(tiny_net, tiny_batch):
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected 3 `class_weights`"):
        CrossEntropy(class_weights=[1, 2])(rr.Probe(tiny_net, tiny_batch))


def test_vectors_can_be_left_out(tiny_net, tiny_batch):
    losses = WeightDecay(include_vectors=False)(rr.Probe(tiny_net, tiny_batch))
    expected = sum(p.square().sum() for p in tiny_net.parameters() if p.ndim > 1)
    torch.testing.assert_close(losses[0], expected)


def test_frozen_parameters_do_not_count(tiny_net, tiny_batch):
    tiny_net.requires_grad_(False)
    assert WeightDecay()(rr.Probe(tiny_net, tiny_batch)).tolist() == [0.0] * 6


def test_half_the_weight_is_what_sgd_calls_weight_decay(tiny_batch):
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(32, 3)).double()
    objective = rr.recipes.erm(weight_decay=0.05)
    by_term = torch.autograd.grad(objective(model, tiny_batch).total, model[1].weight)[0]
    plain = torch.autograd.grad(rr.recipes.erm()(model, tiny_batch).total, model[1].weight)[0]
    torch.testing.assert_close(by_term, plain + 0.1 * model[1].weight)
