import pytest
import torch
from tests.reference import density as slow
from tests.reference import terms
from torch import nn

import rightreasons as rr
from rightreasons.objectives import ScoreMatching


@pytest.mark.parametrize("stability", [0.0, 0.1])
def test_equals_its_slow_twin(tiny_net, tiny_batch, stability):
    tiny_net.eval()
    torch.manual_seed(5)
    term = ScoreMatching(epsilon=0.1, num_samples=2, stability=stability)
    ours = term(rr.Probe(tiny_net, tiny_batch, needs_gradient=True))
    torch.manual_seed(5)
    moves = 0.1 * torch.randn(2, *tiny_batch.x.shape, dtype=torch.float64)
    expected = slow.score_matching(tiny_net, tiny_batch, moves, 0.1, stability)
    torch.testing.assert_close(ours, torch.tensor(expected).double(), rtol=1e-5, atol=1e-9)


def test_its_mean_over_noise_is_the_trace(tiny_batch):
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Softplus(), nn.Flatten(), nn.Linear(12, 3)).double()
    batch = tiny_batch[:1]
    matrix = terms.hessian_matrix(net, batch.x[0], int(batch.y[0]))
    size = terms.input_gradient_norm(net, batch)[0] ** 2 / 2
    term = ScoreMatching(epsilon=0.01, num_samples=4000, stability=0.0)
    estimate = term(rr.Probe(net, batch, needs_gradient=True)).item()
    assert estimate - size == pytest.approx(matrix.trace().item(), rel=0.1, abs=1e-3)


def test_a_sample_does_not_mix_with_others_in_train_mode(tiny_batch):
    net = nn.Sequential(nn.Flatten(), nn.Linear(32, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).double()
    term = ScoreMatching(epsilon=0.1, stability=0.0)
    value = term(rr.Probe(net, tiny_batch, needs_gradient=True))
    gradient = rr.Probe.at_test_time(net, tiny_batch, needs_gradient=True).gradient("logit")
    expected = gradient.flatten(1).square().sum(dim=1) / 2  # straight, as at test time
    torch.testing.assert_close(value, expected, rtol=1e-9, atol=1e-9)


def test_a_ceiling_of_rows_changes_nothing(tiny_net, tiny_batch):
    tiny_net.eval()
    values = []
    for max_rows in (None, 4):
        torch.manual_seed(1)
        objective = ScoreMatching(num_samples=2).as_objective().with_settings(max_rows=max_rows)
        values.append(objective(tiny_net, tiny_batch).total.item())
    assert values[0] == pytest.approx(values[1], rel=1e-8)


@pytest.mark.parametrize("stability", [-1.0, float("inf"), True])
def test_settings_are_checked(stability):
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `stability` to be a finite"):
        ScoreMatching(stability=stability)
