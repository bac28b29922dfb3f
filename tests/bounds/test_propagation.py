import pytest
import torch
from tests.reference import bounds as slow

from rightreasons.bounds import Box, gradient_box, output_box
from rightreasons.errors import InvalidSettingError
from rightreasons.types import Target

Y = torch.tensor([2, 0, 1])


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
