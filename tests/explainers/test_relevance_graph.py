import pytest
import torch
from tests.reference import explainers as twins
from torch import nn
from torch.nn import functional

from rightreasons.errors import UnsupportedLayerError
from rightreasons.explainers.relevance_graph import Kind, RelevanceGraph


def kinds_of(graph):
    return [operation.kind for operation in graph.operations.values()]


@pytest.mark.parametrize("name", twins.NETS)
def test_gives_the_models_logits(name, activation):
    net = twins.make_net(name, activation).eval()
    x = torch.rand(2, 2, *((8, 8) if name == "resnet" else (4, 4)), dtype=torch.float64)
    graph = RelevanceGraph(net).eval()
    torch.testing.assert_close(graph(x), net(x))
    assert torch.equal(graph.values[graph.source], x)
    torch.testing.assert_close(graph.values[graph.sink], net(x))


def test_batch_norm_is_folded_into_the_layer_it_follows(x):
    net = twins.cnn(nn.ReLU).eval()
    graph = RelevanceGraph(net).eval()
    graph(x)
    folded = [op for op in graph.operations.values() if op.norm is not None]
    assert [op.layer for op in folded] == [net[0], net[4]]
    assert folded[0].parents == (graph.source,)
    assert kinds_of(graph).count(Kind.SCALE) == 0


def test_batch_norm_elsewhere_scales(x):
    net = nn.Sequential(nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(32, 3)).double().eval()
    graph = RelevanceGraph(net).eval()
    graph(x)
    assert kinds_of(graph) == [Kind.SCALE, Kind.ROUTE, Kind.AFFINE]


def test_a_single_layer_is_a_model(x):
    graph = RelevanceGraph(nn.Linear(4, 3).double())
    assert graph(x[:, 0, 0]).shape == (3, 3)
    assert kinds_of(graph) == [Kind.AFFINE]


class Calls(nn.Module):
    """Everything by calls, in place where it can be, with sizes in between."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 2, 3, padding=1), nn.Linear(12, 3)
        self.register_buffer("mean", torch.full((1, 2, 1, 1), 0.5))

    def forward(self, x):
        x = (x - self.mean) / 0.25
        hidden = self.first(x)
        hidden += x
        hidden = functional.relu(hidden, inplace=True)
        pooled = functional.max_pool2d(hidden, 2).relu_()
        mean = hidden.mean(dim=(2, 3)).unsqueeze(2).unsqueeze(3)
        joined = torch.cat([pooled, mean.expand_as(pooled[:, :, :1])], dim=2)
        joined = functional.dropout(joined, 0.5, self.training)
        return self.second(joined.view(joined.size(0), -1))


def test_calls_are_known_and_run_out_of_place(x):
    net = Calls().double().eval()
    graph = RelevanceGraph(net).eval()
    torch.testing.assert_close(graph(x), net(x))
    kinds = {node.name: operation.kind for node, operation in graph.operations.items()}
    assert kinds["sub"] is kinds["truediv"] is kinds["dropout"] is Kind.SCALE
    assert kinds["add"] is Kind.SUM
    assert kinds["relu"] is kinds["relu_"] is Kind.PASS
    assert kinds["max_pool2d"] is kinds["cat"] is kinds["expand_as"] is Kind.ROUTE
    assert kinds["mean"] is Kind.AVERAGE
    summed = next(node for node in graph.operations if node.name == "add")
    before = [graph.values[parent] for parent in graph.operations[summed].parents]
    torch.testing.assert_close(graph.values[summed], before[0] + before[1])


def test_what_there_is_no_rule_for_is_listed_at_once(x):
    class Gate(nn.Module):
        def forward(self, x):
            first, second = x.chunk(2, dim=1)
            return torch.cat([first * second.sigmoid(), 1 / x], dim=1)

    net = nn.Sequential(
        *(nn.GroupNorm(1, 2), Gate(), nn.BatchNorm2d(3, track_running_stats=False)),
        *(nn.Flatten(), nn.Linear(48, 3)),
    ).double()
    with pytest.raises(UnsupportedLayerError) as caught:
        RelevanceGraph(net)(x)
    words = str(caught.value)
    for part in ("`0` (GroupNorm)", "chunk() in `1`", "mul() in `1`", "truediv() in `1`"):
        assert part in words
    assert "`2` (BatchNorm2d)" in words
    assert "Use another explainer, such as InputTimesGradient" in words


def test_a_model_that_cannot_be_traced(x):
    class Branches(nn.Linear):
        def forward(self, x):
            return super().forward(x.flatten(1) if x.sum() > 0 else -x.flatten(1))

    with pytest.raises(UnsupportedLayerError, match="torch.fx can trace, but its code depends on"):
        RelevanceGraph(Branches(32, 3).double())(x)


@pytest.mark.parametrize(
    "call",
    [lambda x: x * x, lambda x: torch.add(x, x, alpha=2), lambda x: 1 / x, lambda x: x - x],
)
def test_arithmetic_without_a_rule(call, x):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(32, 3)

        def forward(self, x):
            return self.head(call(x).flatten(1))

    with pytest.raises(UnsupportedLayerError, match=r"\(\) in the model"):
        RelevanceGraph(Net().double())(x)


def test_layers_under_another_name_and_hooks_of_the_users_own(x):
    class Own(nn.Conv2d):
        pass

    seen = []
    body = nn.Sequential(Own(2, 2, 1), nn.ReLU())
    body.register_forward_hook(lambda module, inputs, output: seen.append(type(output)))
    graph = RelevanceGraph(nn.Sequential(body, nn.Flatten(), nn.Linear(32, 3)).double())
    graph(x)
    assert kinds_of(graph) == [Kind.AFFINE, Kind.PASS, Kind.ROUTE, Kind.AFFINE]
    assert not seen
