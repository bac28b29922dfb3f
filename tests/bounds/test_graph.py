import copy
import gc
import pickle
import weakref

import torch
from torch import fx, nn

from rightreasons.bounds import graph, network_of, output_bounds
from rightreasons.models import resnet18


def test_a_model_is_traced_once_for_each_shape(monkeypatch):
    shapes = []
    plan_of = graph.plan_of

    def counted(model, example):
        shapes.append(tuple(example.shape))
        return plan_of(model, example)

    monkeypatch.setattr(graph, "plan_of", counted)
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


def test_models_are_not_kept_alive():
    for make in (lambda: nn.Linear(2, 2), lambda: nn.Sequential(nn.Linear(2, 2), nn.ReLU())):
        model = make()
        network_of(model, torch.zeros(1, 2))
        watched = weakref.ref(model)
        del model
        gc.collect()
        assert watched() is None


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
