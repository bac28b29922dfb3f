import pytest
import torch
from tests.reference import explainers as twins
from torch import nn

from rightreasons.errors import UnknownNameError
from rightreasons.explainers import Explainer, InputGradient


def test_the_formula_is_the_one_thing_to_write(x, y):
    class Logits(Explainer):
        """The logit itself, at every feature."""

        def attribution(self, subject):
            probe = subject.probe(needs_gradient=False)
            value = self.target(probe.logits, subject.y)
            return value.reshape(-1, 1, 1, 1).expand_as(subject.features)

    net = twins.mlp(nn.ReLU)
    attribution = Logits()(net, x, y)
    torch.testing.assert_close(attribution[:, 0, 0, 0], net(x).gather(1, y[:, None])[:, 0].detach())
    assert not attribution.requires_grad
    assert Logits()(net, x, y, create_graph=True).requires_grad


def test_an_explainer_without_a_formula_cannot_be_made():
    with pytest.raises(TypeError, match="abstract"):
        Explainer()


def test_unknown_targets_are_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'logit'"):
        InputGradient(target="logits")


def test_wrappers_are_looked_into(x, y):
    net = twins.mlp(nn.ReLU)
    expected = InputGradient()(net, x, y)
    torch.testing.assert_close(InputGradient()(nn.DataParallel(net), x, y), expected)
