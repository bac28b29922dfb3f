import pytest
import torch

from rightreasons.errors import InvalidBatchError
from rightreasons.metrics.box import draw_start_points
from rightreasons.probe.probe import Probe
from rightreasons.types import Interval


def probe_of(tiny_batch, net, rows):
    batch = tiny_batch.replace(index=torch.arange(len(tiny_batch)))[rows]
    return Probe(net.eval(), batch, needs_gradient="inside", create_graph=False)


def test_points_lie_in_the_box_and_differ(tiny_net, tiny_batch):
    probe = probe_of(tiny_batch, tiny_net, slice(None))
    box = probe.masked.box(0.2)
    points = draw_start_points(probe, box, num_points=3, seed=0)
    assert points.shape == (3, *probe.masked.values.shape)
    assert ((points >= box.lower) & (points <= box.upper)).all()
    free = (box.lower < box.upper).expand_as(points)
    assert points[free].unique().numel() == free.sum()


def test_points_of_a_sample_do_not_depend_on_its_batch(tiny_net, tiny_batch):
    def full(rows):
        probe = probe_of(tiny_batch, tiny_net, rows)
        points = draw_start_points(probe, probe.masked.box(0.2), num_points=2, seed=3)
        columns = probe.masked.columns
        return probe.features.detach().flatten(1).repeat(2, 1, 1).index_copy(2, columns, points)

    whole = full(slice(None))
    assert torch.equal(full(slice(2, 4)), whole[:, 2:4])


def test_a_batch_without_an_index(tiny_net, tiny_batch):
    probe = Probe(tiny_net.eval(), tiny_batch, needs_gradient="inside", create_graph=False)
    box = Interval(probe.masked.values, probe.masked.values)
    with pytest.raises(InvalidBatchError, match="Expected batches with an `index`"):
        draw_start_points(probe, box, num_points=1, seed=0)
