import pytest
import torch

import rightreasons as rr
from rightreasons.datasets import Card, InMemory
from rightreasons.errors import InvalidBatchError, InvalidSettingError, UnknownNameError
from rightreasons.metrics import CertifiedChange, GradientFragility
from rightreasons.metrics.box import BoxMetric

KINDS = [CertifiedChange, GradientFragility]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epsilon": 0}, "Expected `epsilon` to be a finite number above 0, but got 0"),
        ({"epsilon": None}, "Expected `epsilon` to be a finite number above 0, but got None"),
        ({"num_samples": -1}, "Expected `num_samples` to be a whole number from 0"),
        ({"num_steps": 1.5}, "Expected `num_steps` to be a whole number from 0"),
        ({"seed": -1}, "Expected `seed` to be a whole number from 0"),
    ],
)
def test_settings_out_of_range(kind, settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        kind(**settings)


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_target(kind):
    with pytest.raises(UnknownNameError, match="Expected a target, but got 'logits'"):
        kind(target="logits")


@pytest.mark.parametrize("kind", KINDS)
def test_data_without_masks(kind):
    data = rr.Batch(x=torch.rand(2, 3), y=torch.tensor([0, 1]))
    with pytest.raises(InvalidBatchError, match=f"data with masks for {kind.__name__}, but got"):
        rr.evaluate(torch.nn.Linear(3, 2), data, [kind()])


@pytest.mark.parametrize("kind", KINDS)
def test_a_metric_that_was_not_prepared(kind, tiny_net, tiny_batch):
    batch = tiny_batch.replace(index=torch.arange(6))
    probe = rr.Probe(tiny_net.eval(), batch, needs_gradient="inside", create_graph=False)
    with pytest.raises(InvalidBatchError, match=f"Expected {kind.__name__}.prepare.data. before"):
        kind().update(probe)


def test_the_box_ends_where_valid_values_do(tiny_net, tiny_batch):
    class Some(BoxMetric):
        name = "some"

        def measure(self, probe):
            return {"lower": self.box(probe.masked).lower, "upper": self.box(probe.masked).upper}

        def summary(self, rows):
            return 0.0

    metric = Some(epsilon=0.3, target="loss", num_samples=0, num_steps=0, seed=0)
    metric.prepare(InMemory(tiny_batch, Card(valid_range=(0.1, 0.8))))
    probe = rr.Probe(tiny_net.eval(), tiny_batch, needs_gradient="inside", create_graph=False)
    box = metric.measure(probe)
    values, mask = probe.masked.values, probe.masked.mask
    expected = (values - 0.3 * mask).clamp(min=0.1).minimum(values)
    assert torch.allclose(box["lower"], expected)
    assert torch.allclose(box["upper"], (values + 0.3 * mask).clamp(max=0.8).maximum(values))
