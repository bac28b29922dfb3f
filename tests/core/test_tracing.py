import operator

import pytest
import torch
from torch import nn

from rightreasons.bounds import output_bounds
from rightreasons.core.tracing import (
    TracedModel,
    call_name,
    calling_module,
    module_path,
    run_node,
    runs_as,
    trace_graph,
)
from rightreasons.errors import UnsupportedLayerError
from rightreasons.explainers import LRP
from rightreasons.models import with_softplus
from rightreasons.probe.masked import split_at_first_layer

X, Y = torch.rand(2, 3), torch.tensor([0, 1])


class Keeps(nn.Module):
    """Keeps an activation and a count, and has a tensor in its code."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)
        self.count, self.last = 0, None

    def forward(self, x):
        self.count += 1
        self.last = self.first(x)
        return self.second(self.last * torch.tensor([1.0, 2.0, 3.0, 4.0]))


USES = {
    "bounds": lambda model: output_bounds(model, X, X + 0.1),
    "LRP": lambda model: LRP()(model, X, Y),
    "folding": lambda model: split_at_first_layer(model, X),
    "surgery": lambda model: with_softplus(model, 1.0),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_no_use_leaves_a_proxy_or_a_constant_in_the_model(use):
    model = Keeps()
    attributes = set(vars(model))
    assert use(model) is not None
    assert isinstance(model.last, torch.Tensor | None)
    assert set(vars(model)) == attributes


def test_a_tensor_in_the_code_is_part_of_what_is_traced():
    model = Keeps()
    output = output_bounds(model, X, X, outward=False)
    torch.testing.assert_close(output.lower, model(X))
    split = split_at_first_layer(model, X)
    torch.testing.assert_close(split.tail(split.layer(X)), model(X))


def test_a_graph_gives_what_the_model_gives():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 2)))
    root = TracedModel(model)
    values = {}
    for node in trace_graph(root).nodes:
        if node.op == "placeholder":
            values[node] = X
        elif node.op != "output":
            args = [values[arg] for arg in node.args]
            values[node] = run_node(node, root, args, {})
    assert torch.equal(list(values.values())[-1], model(X))
    assert [module_path(node.target) for node in list(values)[1:]] == ["0", "1", "2.0"]


def test_calls_have_a_name_and_the_module_that_makes_them():
    class Doubles(nn.Module):
        def forward(self, x):
            return torch.relu_(x).mul_(2)

    nodes = list(trace_graph(TracedModel(nn.Sequential(nn.Flatten(), Doubles()))).nodes)[2:-1]
    assert [call_name(node.target) for node in nodes] == ["relu", "mul"]
    assert [calling_module(node) for node in nodes] == ["1", "1"]
    assert calling_module(next(iter(trace_graph(TracedModel(Doubles())).nodes))) == ""
    assert call_name(operator.add) == "add"


def test_hooks_run_only_if_asked_for():
    calls = []
    model = nn.Sequential(nn.Sequential(nn.Linear(3, 2)))
    model[0].register_forward_hook(lambda *given: calls.append(given))
    trace_graph(TracedModel(model))
    assert not calls
    trace_graph(TracedModel(model), with_hooks=True)
    assert calls


def test_a_subclass_runs_as_its_parent_unless_it_overrides():
    class Renamed(nn.Conv2d):
        pass

    class Other(nn.Conv2d):
        def _conv_forward(self, *given):
            return 2 * super()._conv_forward(*given)

    assert runs_as(Renamed(1, 1, 1), nn.Conv2d, ("forward", "_conv_forward"))
    assert not runs_as(Other(1, 1, 1), nn.Conv2d, ("forward", "_conv_forward"))
    assert runs_as(Other(1, 1, 1), nn.Conv2d)
    assert not runs_as(nn.Linear(1, 1), nn.Conv2d)


def test_a_model_that_decides_on_values_cannot_be_traced():
    class Branches(nn.Module):
        def forward(self, x):
            self.kept = x
            return x if x.sum() > 0 else -x

    model = Branches()
    with pytest.raises(UnsupportedLayerError, match="but it branches: .* Do not.$"):
        trace_graph(TracedModel(model), problem="but it branches", remedy="Do not.")
    assert not hasattr(model, "kept")
