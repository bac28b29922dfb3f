import copy

import pytest
import torch
from tests.reference import strategies as slow
from torch import nn

import rightreasons as rr
from rightreasons.datasets import InMemory, Splits
from rightreasons.errors import InvalidSettingError
from rightreasons.strategies import DivDis, divdis
from rightreasons.strategies.divdis import Disagreement, TwoHeads, mutual_information


def test_logits_are_the_first_and_the_second_is_recorded():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    heads = TwoHeads(model, model[2], seed=0)
    batch = rr.Batch(x=torch.rand(5, 3), y=torch.zeros(5, dtype=torch.int64))
    probe = rr.Probe(heads, batch, layers=["second"])
    assert torch.equal(probe.logits, model(batch.x))
    assert torch.equal(probe.activations["second"], heads.second(model[:2](batch.x)))
    assert not torch.equal(heads.second.weight, model[2].weight)
    names = dict(heads.named_parameters())
    assert len(names) == 6


def test_the_second_can_be_used():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    heads = TwoHeads(model, model[1], seed=0)
    heads.use_second()
    assert torch.equal(model[1].weight, heads.second.weight)
    assert torch.equal(model[1].bias, heads.second.bias)


def test_weights_depend_on_the_seed_alone():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    one, same, other = (TwoHeads(model, model[1], seed=seed).second.weight for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_mutual_information_equals_the_slow_twin():
    first, second = (torch.randn(6, 3, dtype=torch.float64).softmax(dim=1) for _ in range(2))
    expected = slow.mutual_information(first.tolist(), second.tolist())
    assert float(mutual_information(first, second)) == pytest.approx(expected, rel=1e-6)
    constant = torch.full((6, 3), 1 / 3)
    assert float(mutual_information(constant, first.float())) == pytest.approx(0, abs=1e-6)


def test_the_term_is_the_sum_of_its_parts():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)).double()
    heads = TwoHeads(model, model[1], seed=0)
    x, y = torch.randn(4, 3, dtype=torch.float64), torch.tensor([0, 1, 1, 1])
    data = InMemory(rr.Batch(x=x, y=y))
    same = InMemory(rr.Batch(x=x[:1].repeat(9, 1), y=torch.zeros(9, dtype=torch.int64)))
    term = Disagreement(same, weight=2.0, balance=3.0)
    term.prepare(data, num_passes=1)
    losses = term(rr.Probe(heads, data.batch, layers=["second"]))
    with torch.no_grad():
        p, q = (head.softmax(dim=1) for head in (model(x), heads.second(model[0](x))))
    own = -(p.log() + q.log())[torch.arange(4), y] / 2
    rest = 2 * slow.mutual_information(p[:1].tolist(), q[:1].tolist())
    for one in (p[0], q[0]):
        rest += 3 * float((one * (one / torch.tensor([0.25, 0.75])).log()).sum())
    torch.testing.assert_close(losses, own + rest, rtol=1e-6, atol=1e-6)
    assert copy.deepcopy(term).unlabelled is same


@pytest.mark.parametrize("better", [0, 1])
def test_the_better_head_on_validation_is_kept(
    make_net, tiny_splits, fit_settings, monkeypatch, better
):
    answers = iter([0.5, 0.4 + 0.2 * better])
    monkeypatch.setattr(divdis, "_measure_quality", lambda model, val: next(answers))
    kept = []
    use_second = TwoHeads.use_second

    def spy(self):
        kept.append((self.model[4].weight.clone(), self.second.weight.clone()))
        use_second(self)

    monkeypatch.setattr(TwoHeads, "use_second", spy)
    net = make_net()
    DivDis().fit(net, rr.recipes.erm(), tiny_splits, **fit_settings)
    assert torch.equal(net[4].weight, kept[0][better])


def test_heads_differ_where_they_may(make_net, tiny_splits, fit_settings, tmp_path):
    net = make_net()
    strategy = DivDis(unlabelled="validation", weight=1.0, balance=1.0)
    fitted = strategy.fit(net, rr.recipes.erm(), tiny_splits, out=tmp_path, **fit_settings)
    assert fitted.weights == {"disagreement": 1.0}
    assert (tmp_path / "stage-1-heads" / "model.safetensors").exists()


def test_labels_of_the_unlabelled_are_not_read(make_net, tiny_splits, fit_settings):
    other = tiny_splits.test.batch.replace(y=torch.zeros(32, dtype=torch.int64))
    changed = Splits(
        train=tiny_splits.train, val=tiny_splits.val, test=InMemory(other, tiny_splits.card)
    )
    ends = []
    for splits in (tiny_splits, changed):
        net = make_net()
        DivDis().fit(net, rr.recipes.erm(), splits, **fit_settings)
        ends.append(net.state_dict())
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_without_groups_by_accuracy(make_net, tiny_splits):
    batch = tiny_splits.val.batch
    bare = InMemory(rr.Batch(x=batch.x, y=batch.y))
    net = make_net()
    assert divdis._measure_quality(net, bare) == rr.evaluate(net, bare, ["accuracy"])["accuracy"]
    worst = rr.evaluate(net, tiny_splits.val, ["group_accuracy"])["group_accuracy/worst"]
    assert divdis._measure_quality(net, tiny_splits.val) == worst


def test_it_needs_validation_data(make_net, tiny_splits, fit_settings):
    splits = Splits(train=tiny_splits.train, val=None, test=tiny_splits.test)
    with pytest.raises(InvalidSettingError, match="Expected validation data for DivDis"):
        DivDis().fit(make_net(), rr.recipes.erm(), splits, **fit_settings)
