import pytest
import torch
from tests.reference import terms

import rightreasons as rr
from rightreasons.objectives import CrossEntropy


def test_equals_its_slow_twin(tiny_net, tiny_batch):
    probe = rr.Probe(tiny_net, tiny_batch)
    expected = terms.cross_entropy(probe.logits.detach(), tiny_batch.y)
    torch.testing.assert_close(CrossEntropy()(probe), torch.tensor(expected, dtype=torch.float64))


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
