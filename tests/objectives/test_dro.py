import pytest
import torch
from tests.reference import terms
from tests.reference.strategies import cvar
from tests.reference.terms import cross_entropy
from torch.nn import functional

import rightreasons as rr
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives import CVAR, GroupDRO


def test_follows_its_slow_twin_over_steps(tiny_net, tiny_batch):
    tiny_net.eval()
    term = GroupDRO(num_groups=4, step_size=0.5)  # the fourth group never comes
    weights = [0.25] * 4
    losses = functional.cross_entropy(tiny_net(tiny_batch.x), tiny_batch.y, reduction="none")
    for _ in range(5):
        weights, expected = terms.group_dro(
            losses.tolist(), tiny_batch.group.tolist(), weights, 0.5
        )
        got = term.as_objective()(tiny_net, tiny_batch).total.item()
        assert got == pytest.approx(expected, rel=1e-10)
        assert term.log_weights.softmax(0).tolist() == pytest.approx(weights)


def test_the_worst_group_gains_weight(tiny_net, tiny_batch):
    tiny_net.eval()
    term = GroupDRO(num_groups=3, step_size=1.0)
    losses = functional.cross_entropy(tiny_net(tiny_batch.x), tiny_batch.y, reduction="none")
    means = losses.detach().reshape(3, 2).mean(dim=1)
    for _ in range(50):
        term.as_objective()(tiny_net, tiny_batch)
    assert term.log_weights.argmax() == means.argmax()


def test_the_adjustment_favours_small_groups(tiny_net, tiny_batch):
    tiny_net.eval()
    term = GroupDRO(num_groups=3, step_size=1.0, adjustment=10.0, group_counts=(10000, 10000, 1))
    term.as_objective()(tiny_net, tiny_batch)
    assert term.log_weights.argmax() == 2


def test_weights_stand_still_in_evaluation(tiny_net, tiny_batch):
    term = GroupDRO(num_groups=3)
    term.eval()
    term.as_objective()(tiny_net, tiny_batch)
    with torch.no_grad():
        term.train()
        term.as_objective()(tiny_net, tiny_batch)
    assert term.log_weights.tolist() == [0.0, 0.0, 0.0]


def test_learns_the_number_of_groups_and_restores_it(tiny_net, tiny_batch):
    objective = rr.recipes.group_dro(step_size=0.1)
    objective(tiny_net, tiny_batch)
    fresh = rr.recipes.group_dro(step_size=0.1)
    fresh.load_state_dict(objective.state_dict())
    saved = objective.terms["group_dro"].log_weights
    assert len(saved) == 3
    assert torch.equal(fresh.terms["group_dro"].log_weights, saved)


@pytest.mark.parametrize(
    ("group", "words"),
    [
        (None, "Expected every sample to have a group.*no `group` in a batch of 6"),
        (torch.tensor([0, 1, -1, 0, -1, 0]), "2 unknown groups in a batch of 6"),
        (torch.tensor([0, 1, 9, 0, 1, 0]), "Expected groups from 0 to 2, but got 9"),
    ],
)
def test_unknown_groups_are_an_error(tiny_net, tiny_batch, group, words):
    batch = rr.Batch(x=tiny_batch.x, y=tiny_batch.y, group=group)
    with pytest.raises(rr.errors.InvalidBatchError, match=words):
        rr.recipes.group_dro(num_groups=3)(tiny_net, batch)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"step_size": -1.0}, "Expected `step_size` to be a finite number of at least 0"),
        ({"step_size": "fast"}, "Expected `step_size` to be a finite number of at least 0"),
        ({"num_groups": -1}, "Expected `num_groups` to be a whole number from 1"),
        ({"num_groups": 2, "group_counts": (1, 2, 3)}, "`group_counts` for 2 groups, but got 3"),
        ({"adjustment": 1.0}, "Expected `group_counts` beside an `adjustment`"),
    ],
)
def test_bad_settings_of_group_dro(settings, words):
    with pytest.raises(rr.errors.InvalidSettingError, match=words):
        GroupDRO(**settings)


def test_counts_tell_the_number_of_groups(tiny_net, tiny_batch):
    objective = rr.recipes.group_dro(adjustment=1.0, group_counts=[5, 5, 5, 5])
    objective(tiny_net, tiny_batch)
    assert len(objective.terms["group_dro"].log_weights) == 4


def test_a_new_group_in_evaluation_leaves_no_trace(tiny_net, tiny_batch):
    objective = rr.recipes.group_dro()
    objective(tiny_net, tiny_batch)
    objective.eval()
    objective(tiny_net, tiny_batch.replace(group=tiny_batch.group + 5))
    assert len(objective.terms["group_dro"].log_weights) == 3


@pytest.mark.parametrize("alpha", [0.1, 0.25, 0.5, 1.0])
def test_the_mean_equals_the_slow_twin(alpha, tiny_net, tiny_batch):
    tiny_net.eval()
    losses = CVAR(alpha=alpha)(rr.Probe(tiny_net, tiny_batch))
    plain = cross_entropy(tiny_net(tiny_batch.x), tiny_batch.y)
    assert losses.mean().item() == pytest.approx(cvar(plain, alpha))


def test_a_share_of_one_is_cross_entropy(tiny_net, tiny_batch):
    tiny_net.eval()
    ours = rr.recipes.cvar_dro(alpha=1.0)(tiny_net, tiny_batch).total
    torch.testing.assert_close(ours, rr.recipes.erm()(tiny_net, tiny_batch).total)


def test_samples_beyond_the_share_count_nothing(tiny_net, tiny_batch):
    losses = CVAR(alpha=0.4)(rr.Probe(tiny_net.eval(), tiny_batch))
    assert (losses > 0).sum() == 3  # 2.4 samples


@pytest.mark.parametrize("alpha", [0, 1.5, True, "half"])
def test_bad_settings_of_cvar(alpha):
    with pytest.raises(InvalidSettingError, match="Expected `alpha` to be a share above 0"):
        CVAR(alpha=alpha)
