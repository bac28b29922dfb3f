import pytest
import torch

import rightreasons as rr
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.metrics import DensityRobustness, GradientRobustness
from rightreasons.metrics.noise import DEVIATIONS


def test_the_deviations_grow():
    assert sorted(DEVIATIONS) == list(DEVIATIONS)
    assert GradientRobustness(deviations=[0.5, 0.1]).deviations == [0.1, 0.5]


def test_all_deviations_share_draws_of_the_sample_and_no_row_is_passed_twice():
    seen, places = [], []
    batch = rr.Batch(x=torch.zeros(3, 4), y=torch.zeros(3).long(), index=torch.tensor([5, 2, 9]))
    metric = DensityRobustness(deviations=[1.0, 2.0], num_draws=2, seed=4)
    probe = rr.Probe(torch.nn.Linear(4, 2), batch, max_rows=5)

    def read(moved, samples):
        seen.append(moved)
        places.append(samples)
        return moved

    found = metric.mean_under_noise(probe, read)
    rows = torch.cat(seen).reshape(2, 2, 3, 4)
    assert [len(some) for some in seen] == [5, 5, 2]
    assert torch.cat(places).tolist() == [0, 1, 2] * 4
    assert torch.equal(rows[1], 2 * rows[0])
    assert torch.equal(rows * 1024, (rows * 1024).round())
    assert torch.allclose(found, rows.mean(dim=1).transpose(0, 1))
    alone = metric.mean_under_noise(rr.Probe(probe.model, batch[1:2]), lambda moved, _: moved)
    assert torch.equal(alone, found[1:2])


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
