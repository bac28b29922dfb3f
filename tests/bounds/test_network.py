import copy
import gc
import pickle
import weakref

import torch
from tests.reference import bounds as slow
from torch import fx, nn

from rightreasons.bounds import Box, Network, Node, network, network_of, output_bounds
from rightreasons.bounds.combination import Add
from rightreasons.models import resnet18


def test_forward_gives_the_boxes_of_all_nodes(small_net, listed, small_box):
    boxes = network_of(small_net, small_box.center).forward(small_box)
    assert len(boxes) == 6 and boxes[0] is small_box
    for sample in range(3):
        stages = slow.forward(listed, slow.intervals(small_box, sample))
        for number, stage in zip((1, 3, 5), stages, strict=True):
            found = torch.tensor(slow.intervals(boxes[number], sample))
            torch.testing.assert_close(found, torch.tensor(stage))


def test_gradients_of_several_uses_add_up():
    layer = nn.Linear(2, 2).double()
    nodes = (
        Node("a", layer, (0,)),
        Node("b", Add(), (1, 0)),
        Node("c", Add(-1.0), (2, 0)),
        Node("d", Add(), (3, 3)),
    )
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    value = layer(x) + x - x
    (expected,) = torch.autograd.grad((2 * value).sum(), x)
    network = Network(nodes)
    for outward in (False, True):
        point = Box(x.detach(), torch.zeros(3, 2, dtype=torch.float64))
        boxes = network.forward(point, outward=outward)
        gradients = network.backward(boxes, Box.exact(torch.ones_like(x)), outward=outward)
        torch.testing.assert_close(gradients[0].center, expected)
        assert len(gradients) == 5
        assert gradients[0].is_exact is (not outward)
        assert bool((gradients[0].lower <= expected).all())


def test_a_network_without_layers_hands_on():
    box = Box(torch.ones(1, 2), torch.ones(1, 2))
    network = Network(())
    assert network.forward(box) == [box]
    assert network.backward([box], box)[0] is box


def test_a_model_is_traced_once_for_each_shape(monkeypatch):
    shapes = []
    plan_of = network.plan_of

    def counted(model, example):
        shapes.append(tuple(example.shape))
        return plan_of(model, example)

    monkeypatch.setattr(network, "plan_of", counted)
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    for shape in ((3, 4), (5, 4), (3, 2, 2), (1, 4)):
        network_of(model, torch.zeros(shape))
    assert shapes == [(1, 4), (1, 2, 2)]


def test_exchanged_layers_are_seen():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    x = torch.randn(3, 2)
    output_bounds(model, x, x)
    model[1] = nn.Tanh()
    torch.testing.assert_close(output_bounds(model, x, x, outward=False).lower, model(x))
    model[0] = nn.Linear(2, 2)
    torch.testing.assert_close(output_bounds(model, x, x, outward=False).lower, model(x))


class Scaled(nn.Module):
    """Has a constant of each kind: a parameter and a tensor in its code."""

    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.rand(2))

    def forward(self, x):
        return x * self.factor + torch.tensor([1.0, 2.0])


def test_models_are_not_kept_alive():
    models = [nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU()), Scaled()]
    for model in models:
        network_of(model, torch.zeros(1, 2))
    watched = [weakref.ref(model) for model in models]
    del model, models
    gc.collect()
    assert [reference() for reference in watched] == [None] * 3


def test_copies_and_pickles_of_a_model_hold_nothing_of_it():
    model = nn.Sequential(nn.Linear(2, 2))
    size = len(pickle.dumps(model))
    network_of(model, torch.zeros(1, 2))
    assert len(pickle.dumps(model)) == size
    assert network_of(copy.deepcopy(model), torch.zeros(1, 2)).nodes[0].layer is not model[0]


def test_wrappers_are_taken_off():
    model = nn.Sequential(nn.Linear(2, 2))
    network = network_of(nn.DataParallel(model), torch.zeros(1, 2))
    assert network.nodes[0].layer is model[0]


def test_a_graph_module_is_a_model_as_well():
    model = fx.symbolic_trace(nn.Sequential(nn.ReLU(), nn.Linear(5, 2)))
    x = torch.randn(3, 5)
    torch.testing.assert_close(output_bounds(model, x, x, outward=False).upper, model(x))


def test_residual_nets_have_their_sums():
    network = network_of(resnet18(classes=2, size=8, width=0.05), torch.zeros(1, 3, 8, 8))
    sums = [node for node in network.nodes if len(node.inputs) == 2]
    assert len(sums) == 8
    assert network.nodes[0].name == "conv1" and network.nodes[-1].name == "fc"
