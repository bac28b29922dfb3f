import copy

import pytest
import torch
from tests.reference import terms as twins

import rightreasons as rr
from rightreasons.datasets import InMemory
from rightreasons.datasets.dataset import Card
from rightreasons.objectives import CertR4, Ramp, RandR4


@pytest.fixture
def probe(tiny_net, tiny_batch):
    tiny_net.eval()
    return rr.Probe(tiny_net, tiny_batch, needs_gradient="inside")


def test_the_box_is_cut_to_the_range_of_the_data_that_were_prepared(probe, tiny_batch):
    term = RandR4(epsilon=0.9)
    assert float(term.box(probe.masked).upper.max()) > 1.5
    term.prepare(InMemory(tiny_batch, Card(valid_range=(-0.5, 1.25))), num_passes=1)
    lower, upper = term.box(probe.masked)
    assert float(upper.max()) == 1.25
    assert float(lower.min()) == -0.5
    own = RandR4(epsilon=0.9, valid_range=(0.0, 1.0))
    own.prepare(InMemory(tiny_batch, Card(valid_range=(-0.5, 1.25))), num_passes=1)
    assert float(own.box(probe.masked).upper.max()) == 1


@pytest.mark.parametrize("epsilon", [0.4, None])
def test_a_ramp_widens_the_box(probe, tiny_batch, epsilon):
    term = RandR4(epsilon=epsilon, ramp=0.5, valid_range=(-1.0, 2.0))
    term.prepare(InMemory(tiny_batch), num_passes=4)
    widths = []
    for _ in range(3):
        lower, upper = term.box(probe.masked)
        assert bool((lower <= probe.masked.values).all())
        widths.append(float((upper - lower).mean()))
    assert widths[0] == 0
    assert widths[1] == pytest.approx(widths[2] / 2)


def test_fit_prepares_terms(tiny_batch):
    class Spy(RandR4):
        seen = None

        def prepare(self, data, *, num_passes):
            super().prepare(data, num_passes=num_passes)
            Spy.seen = (len(data), num_passes)

    model = rr.models.mlp(inputs=32, hidden=(3,), classes=3).double()
    objective = rr.objectives.CrossEntropy() + 1.0 * Spy(ramp=0.5)
    rr.fit(model, objective, tiny_batch, epochs=2, batch_size=2, accumulate=2, progress=False)
    assert Spy.seen == (6, 6)


def test_settings_are_checked():
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `epsilon` to be a finite"):
        CertR4(epsilon=0.0)
    for bad in ((1.0, 0.0), (1.0,), "no", 3):
        with pytest.raises(rr.errors.InvalidSettingError, match="Expected `valid_range` to be a"):
            CertR4(valid_range=bad)


def test_every_valid_value_needs_a_range(probe):
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected a `valid_range`"):
        RandR4(epsilon=None)(probe)
    assert torch.isfinite(RandR4(epsilon=None, valid_range=(0.0, 1.0))(probe)).all()


def test_grows_to_one_over_its_share_and_stays():
    ramp = Ramp(0.5)
    ramp.prepare(num_passes=8)
    assert [ramp.advanced() for _ in range(6)] == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]


@pytest.mark.parametrize("shape", ["linear", "geometric"])
def test_a_ramp_equals_its_slow_twin(shape):
    ramp = Ramp(0.85, start=0.25, shape=shape)
    ramp.prepare(num_passes=40)
    found = [ramp.advanced() for _ in range(40)]
    assert found == pytest.approx(twins.ramp(40, 0.25, 0.85, shape), rel=1e-9)
    assert found[:10] == [0.0] * 10 and found[34:] == [1.0] * 6


def test_a_ramp_ends_after_it_begins():
    with pytest.raises(rr.errors.InvalidSettingError, match="`ramp_start` below `ramp`"):
        Ramp(0.3, start=0.5)
    with pytest.raises(rr.errors.InvalidSettingError, match="`ramp_shape` to be 'linear'"):
        CertR4(ramp=0.3, ramp_shape="steep")


def test_an_automatic_weight_is_set_where_the_box_has_its_width(tiny_batch):
    """It follows the ramp, and ends as if it had begun at the full width."""
    torch.manual_seed(0)
    model = rr.models.mlp(inputs=32, hidden=(16,), classes=3).double()

    def weight_of(num_passes, **ramp):
        penalty = CertR4(epsilon=0.5, **ramp)
        objective = rr.objectives.CrossEntropy() + "auto" * penalty
        objective.prepare(InMemory(tiny_batch), num_passes=num_passes)
        (weight,) = objective.auto_weights.values()
        found = []
        for _ in range(num_passes):  # the model stays as it is
            objective(model, tiny_batch)
            found.append(weight.value)
        return weight, found

    plain, _ = weight_of(30)
    grown, course = weight_of(60, ramp=0.5, ramp_start=0.2, ramp_shape="geometric")
    narrow, _ = weight_of(30, ramp=0.99, ramp_start=0.98)
    assert plain.settled and grown.settled and not narrow.settled
    assert grown.value == pytest.approx(plain.value, rel=0.15)
    assert narrow.value > 2 * plain.value  # near epsilon 0 the penalty is small
    assert course[0] == pytest.approx(narrow.value) and course[0] > course[28] > 0


def test_without_a_share_it_is_one_at_once():
    assert Ramp(0.0).advanced() == 1.0


def test_measuring_does_not_move_it():
    ramp = Ramp(0.5)
    ramp.prepare(num_passes=4)
    ramp.advanced()
    with torch.no_grad():
        assert ramp.advanced() == ramp.advanced() == 0.5
    ramp.eval()
    assert ramp.advanced() == ramp.advanced() == 0.5


def test_its_place_is_in_the_state():
    ramp = Ramp(0.5)
    ramp.prepare(num_passes=8)
    ramp.advanced()
    other = Ramp(0.5)
    other.load_state_dict(copy.deepcopy(ramp.state_dict()))
    assert other.advanced() == 0.25


def test_says_who_must_tell_how_long_training_is():
    with pytest.raises(rr.errors.InvalidSettingError, match=r"Call objective\.prepare"):
        Ramp(0.5).advanced()
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `ramp` to be a number"):
        Ramp(1.5)
