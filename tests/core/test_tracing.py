import gc
import operator
import weakref

import pytest
import torch
from torch import fx, nn

import rightreasons as rr
from rightreasons.bounds import output_bounds
from rightreasons.core.tracing import (
    TracedModel,
    call_name,
    calling_module,
    module_path,
    run_node,
    runs_as,
    split_at_first_layer,
    trace_graph,
)
from rightreasons.errors import UnsupportedLayerError
from rightreasons.explainers import LRP
from rightreasons.models import with_softplus

X, Y = torch.rand(2, 3), torch.tensor([0, 1])
IMAGES = torch.rand(5, 1, 2, 2)


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


class Views(nn.Module):
    """Flattens by hand and branches behind the first layer."""

    def __init__(self):
        super().__init__()
        self.first, self.left, self.right = nn.Linear(4, 3), nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x):
        z = self.first(x.view(x.size(0), -1))
        return self.left(torch.tanh(z)) + self.right(torch.relu(z))


class Twice(nn.Module):
    """Uses its first layer twice."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)

    def forward(self, x):
        return self.first(self.first(x.flatten(1)))


class Skips(nn.Module):
    """Uses the input again behind the first layer."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)

    def forward(self, x):
        return self.first(x.flatten(1)) + x.flatten(1)


class Doubles(nn.Module):
    """Changes the input before the first layer."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)

    def forward(self, x):
        return self.first(2 * x.flatten(1))


class Decides(nn.Module):
    """Cannot be traced."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 2)

    def forward(self, x):
        z = self.first(x.flatten(1))
        return z if z.sum() > 0 else -z


class KeepsInput(nn.Module):
    """Stores its input on itself."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 2)
        self.seen = None

    def forward(self, x):
        self.seen = x
        return self.first(x.flatten(1))


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), "1"),
        (rr.models.mlp(inputs=4, hidden=(3, 3), classes=2), "1"),
        (Views(), "first"),
    ],
)
def test_halves_give_what_the_whole_gives(model, name):
    split = split_at_first_layer(model, IMAGES)
    assert split.name == name
    assert split.layer is dict(model.named_modules())[name]
    torch.testing.assert_close(
        split.tail(split.layer(IMAGES.flatten(1))), model(IMAGES), rtol=0, atol=0
    )


@pytest.mark.parametrize(
    "model",
    [
        Twice(),
        Skips(),
        Doubles(),
        Decides(),
        nn.Sequential(nn.Conv2d(1, 1, 1), nn.Flatten(), nn.Linear(4, 2)),
        nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Linear(4, 2)),
        nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(4, 2)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_nets_that_do_not_begin_with_a_linear_layer_have_none(model):
    x = IMAGES - 0.5
    assert split_at_first_layer(model, x) is None


def test_is_found_once_and_again_when_a_layer_is_exchanged():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    first = split_at_first_layer(model, IMAGES)
    assert split_at_first_layer(model, IMAGES) is first
    model[3] = nn.Linear(3, 5)
    assert split_at_first_layer(model, IMAGES).tail(torch.rand(2, 3)).shape == (2, 5)


def test_a_watched_layer_is_left_alone():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    assert split_at_first_layer(model, IMAGES) is not None
    handle = model[1].register_forward_hook(lambda *_: None)
    assert split_at_first_layer(model, IMAGES) is None
    handle.remove()
    assert split_at_first_layer(model, IMAGES) is not None


def test_does_not_keep_models_alive_and_leaves_them_as_they_were():
    model = KeepsInput()
    assert split_at_first_layer(model, IMAGES) is not None
    assert not isinstance(model.seen, fx.Proxy)
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None
