import pytest
import torch
from tests.reference import explainers as twins
from torch import nn

from rightreasons.errors import InvalidSettingError
from rightreasons.explainers import Occlusion


@pytest.mark.parametrize(("window", "stride"), [(1, 1), (2, 2), (2, 1), (3, 2), (4, 4), (9, 3)])
def test_equals_its_slow_twin(window, stride, x, y):
    net = twins.cnn(nn.ReLU).eval()
    attribution = Occlusion(window=window, stride=stride, value=0.3, max_rows=5)(net, x, y)
    for n in range(len(x)):
        expected = twins.occlusion(
            net, x[n], int(y[n]), window=min(window, 4), stride=stride, value=0.3
        )
        torch.testing.assert_close(attribution[n], expected)


def test_runs_of_columns_and_of_tokens():
    net = nn.Linear(5, 2).double()
    x, y = torch.rand(2, 5, dtype=torch.float64), torch.tensor([0, 1])
    drops = (net.weight[y] * x).detach()
    attribution = Occlusion(window=2)(net, x, y)
    for columns in ([0, 1], [2, 3], [4]):
        expected = drops[:, columns].sum(dim=1, keepdim=True).expand(-1, len(columns))
        torch.testing.assert_close(attribution[:, columns], expected)
    words = nn.Sequential(nn.Embedding(9, 3), nn.Flatten(), nn.Linear(12, 2)).double()
    tokens = torch.tensor([[1, 5, 3, 1], [2, 2, 8, 0]])
    drops = (words[2].weight[y] * words[:2](tokens)).reshape(2, 4, 3).sum(dim=2, keepdim=True)
    attribution = Occlusion(window=1, max_rows=3)(words, tokens, y)
    torch.testing.assert_close(attribution, drops.expand(2, 4, 3).detach())


def test_signals_and_embeddings_are_told_apart():
    """A window covers all channels of a signal, or whole embeddings."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 2)).double()
    x, y = torch.rand(2, 3, 4, dtype=torch.float64), torch.tensor([0, 1])
    drops = (net[1].weight[y] * x.flatten(1)).reshape(2, 3, 4).detach()
    for axis, summed in ((1, 1), (-1, 2)):
        attribution = Occlusion(window=1, channel_axis=axis)(net, x, y)
        torch.testing.assert_close(attribution, drops.sum(summed, keepdim=True).expand(2, 3, 4))
    with pytest.raises(InvalidSettingError, match=r"for samples \(3, 4\), but got none: it is 1"):
        Occlusion()(net, x, y)


def test_it_is_for_evaluation_only(x, y):
    with pytest.raises(InvalidSettingError, match="`create_graph=False` for Occlusion"):
        Occlusion()(twins.cnn(nn.ReLU), x, y, create_graph=True)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"window": 0}, "`window` to be a whole number from 1"),
        ({"window": 2, "stride": 3}, "`stride` to be a whole number from 1 to 2, but got 3"),
        ({"value": "grey"}, "`value` to be a number, but got 'grey'"),
        ({"max_rows": 0}, "`max_rows`"),
    ],
)
def test_settings_out_of_range(settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        Occlusion(**settings)
