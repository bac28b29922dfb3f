import math

import pytest
import torch
from tests.reference import leakage as slow
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.metrics import DensityRobustness, GradientRobustness
from rightreasons.metrics.noise import DEVIATIONS


def test_the_deviations_grow():
    assert sorted(DEVIATIONS) == list(DEVIATIONS)
    assert GradientRobustness(deviations=[0.5, 0.1]).deviations == [0.1, 0.5]


def test_all_deviations_share_draws_of_the_sample_and_no_row_is_passed_twice():
    seen, rows_seen = [], []
    batch = rr.Batch(x=torch.zeros(3, 4), y=torch.zeros(3).long(), index=torch.tensor([5, 2, 9]))
    metric = DensityRobustness(deviations=[1.0, 2.0], num_draws=2, seed=4)
    probe = rr.Probe(torch.nn.Linear(4, 2), batch, max_rows=5)

    def read(moved, samples):
        seen.append(moved)
        rows_seen.append(samples)
        return moved

    result = metric.mean_under_noise(probe, read)
    rows = torch.cat(seen).reshape(2, 2, 3, 4)
    assert [len(some) for some in seen] == [5, 5, 2]
    assert torch.cat(rows_seen).tolist() == [0, 1, 2] * 4
    assert torch.equal(rows[1], 2 * rows[0])
    assert torch.equal(rows * 1024, (rows * 1024).round())
    assert torch.allclose(result, rows.mean(dim=1).transpose(0, 1))
    alone = metric.mean_under_noise(rr.Probe(probe.model, batch[1:2]), lambda moved, _: moved)
    assert torch.equal(alone, result[1:2])


@pytest.mark.parametrize("metric", [GradientRobustness, DensityRobustness])
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"deviations": []}, "Expected `deviations` to be a number or a list of numbers"),
        ({"deviations": [0.1, 0]}, "Expected `deviations` to be a finite number above 0"),
        ({"num_draws": 0}, "Expected `num_draws` to be a whole number from 1"),
        ({"seed": -1}, "Expected `seed` to be a whole number from 0"),
    ],
)
def test_settings_out_of_range(metric, settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        metric(**settings)


def test_one_deviation_is_a_list_of_one():
    assert GradientRobustness(deviations=0.1).deviations == [0.1]


def test_samples_without_a_place_are_refused():
    probe = rr.Probe(torch.nn.Linear(4, 2), rr.Batch(x=torch.zeros(3, 4), y=torch.zeros(3).long()))
    with pytest.raises(InvalidBatchError, match="floating point `x` with an `index` for Density"):
        DensityRobustness().measure(probe)


def test_density_robustness_equals_its_slow_twin(tiny_batch):
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    metric = DensityRobustness(deviations=(0.05, 0.2), num_draws=2, seed=3)
    result = rr.evaluate(model, tiny_batch, [metric], max_rows=5)
    sums, distances = zip(
        *(
            slow.density_robustness(model, tiny_batch, deviation=one, num_draws=2, seed=3)
            for one in (0.05, 0.2)
        ),
        strict=True,
    )
    name = "density_robustness"
    for column, deviation in enumerate(("0.05", "0.2")):
        assert result[f"{name}/{deviation}"] == pytest.approx(sums[column], rel=1e-5)
        assert result[f"{name}/log/{deviation}"] == pytest.approx(distances[column], rel=1e-5)
    assert result[name] == pytest.approx(sum(sums) / 2, rel=1e-5)
    assert result[f"{name}/log"] == pytest.approx(sum(distances) / 2, rel=1e-5)
    assert len(result) == 6


def test_a_model_that_noise_does_not_move_has_the_number_of_classes():
    batch = rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1]))
    model = nn.Linear(3, 7)
    model.weight.data.zero_()
    result = rr.evaluate(model, batch, ["density_robustness"])
    assert result["density_robustness"] == pytest.approx(7)
    assert result["density_robustness/log"] == pytest.approx(0, abs=1e-12)


def test_large_logits_do_not_overflow():
    batch = rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1]))
    model = nn.Linear(3, 2)
    model.bias.data = torch.tensor([1e4, -1e4])
    assert all(map(math.isfinite, rr.evaluate(model, batch, ["density_robustness"]).values()))


def test_gradient_robustness_equals_its_slow_twin(tiny_batch):
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    metric = GradientRobustness(deviations=(0.2, 0.05), num_draws=2, seed=3)
    result = rr.evaluate(model, tiny_batch, [metric], max_rows=5)
    expected = [
        slow.gradient_robustness(model, tiny_batch, deviation=one, num_draws=2, seed=3)
        for one in (0.05, 0.2)
    ]
    assert result["gradient_robustness/0.05"] == pytest.approx(expected[0], rel=1e-5)
    assert result["gradient_robustness/0.2"] == pytest.approx(expected[1], rel=1e-5)
    assert result["gradient_robustness"] == pytest.approx(sum(expected) / 2, rel=1e-5)
    assert result["gradient_robustness/n"] == 6
    assert expected[0] < expected[1]


def test_linear_models_do_not_move_and_flat_ones_do_not_count():
    batch = rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1]))
    model = nn.Linear(3, 2)
    assert rr.evaluate(model, batch, ["gradient_robustness"])["gradient_robustness"] == 0
    model.weight.data[1] = 0
    assert rr.evaluate(model, batch, ["gradient_robustness"])["gradient_robustness/n"] == 2
    model.weight.data[0] = 0
    assert rr.evaluate(model, batch, ["gradient_robustness"]) == {"gradient_robustness/n": 0.0}


def test_the_target_may_be_the_density():
    batch = rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1]))
    model = nn.Linear(3, 2)
    metric = GradientRobustness(target="logsumexp")
    assert rr.evaluate(model, batch, [metric])["gradient_robustness"] > 0
