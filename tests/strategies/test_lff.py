import copy

import pytest
import torch
from tests.reference.strategies import relative_difficulty
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.strategies import LFF
from rightreasons.strategies.lff import Pair, RelativeDifficulty


@pytest.fixture
def pair():
    return Pair(nn.Linear(3, 2), nn.Linear(3, 2)).double()


@pytest.fixture
def batch():
    y = torch.tensor([0, 1, 1, 0])
    return rr.Batch(x=torch.randn(4, 3, dtype=torch.float64), y=y, index=torch.arange(4))


def probed(pair, batch):
    return rr.Probe(pair, batch, layers=["biased"])


def test_equals_the_slow_twin(pair, batch):
    term = RelativeDifficulty(q=0.5)
    losses = term(probed(pair, batch))
    logits = pair.biased(batch.x).tolist(), pair.debiased(batch.x).tolist()
    expected = relative_difficulty(*logits, batch.y.tolist(), 0.5)
    assert losses.tolist() == pytest.approx(expected)


def test_each_model_learns_from_its_own_loss(pair, batch):
    term = RelativeDifficulty()
    term(probed(pair, batch)).sum().backward()
    biased = copy.deepcopy(pair.biased)
    biased.zero_grad()
    p = biased(batch.x).softmax(dim=1).gather(1, batch.y[:, None])
    ((1 - p**0.7) / 0.7).sum().backward()
    torch.testing.assert_close(pair.biased.weight.grad, biased.weight.grad)
    assert pair.debiased.weight.grad.abs().sum() > 0


def test_losses_are_averaged_over_epochs(pair, batch):
    term = RelativeDifficulty(decay=0.75)
    term.prepare(rr.datasets.InMemory(batch), num_passes=2)
    term(probed(pair, batch))
    first = term.averages.clone()
    other = copy.deepcopy(pair)
    with torch.no_grad():
        other.biased.weight += 1
    term(probed(other, batch))
    now = torch.nn.functional.cross_entropy(other.biased(batch.x), batch.y, reduction="none")
    expected = 0.75 * first[:, 0] + 0.25 * now.detach().float()
    torch.testing.assert_close(term.averages[:, 0], expected)
    restored = RelativeDifficulty(decay=0.75)
    restored.prepare(rr.datasets.InMemory(batch), num_passes=2)
    restored.load_state_dict(term.state_dict())
    assert torch.equal(restored(probed(pair, batch)), term(probed(pair, batch)))


def test_a_batch_without_index(pair, batch):
    bare = rr.Batch(x=batch.x, y=batch.y)
    with pytest.raises(InvalidBatchError, match="Expected a batch with `index`"):
        RelativeDifficulty()(probed(pair, bare))
    assert RelativeDifficulty().eval()(probed(pair, bare)).shape == (4,)


def test_the_second_model_is_the_one_that_is_kept(make_net, tiny_splits, fit_settings, tmp_path):
    net = make_net()
    net[1].eval()  # stays so
    objective = rr.recipes.erm(weight_decay=1e-4)
    fitted = LFF().fit(net, objective, tiny_splits, out=tmp_path, **fit_settings)
    assert set(fitted.weights) == {"relative_difficulty", "weight_decay"}
    assert torch.equal(net[1].running_mean, torch.zeros(4))
    from safetensors.torch import load_file

    saved = load_file(tmp_path / "stage-1-pair" / "model.safetensors")
    for name, value in net.state_dict().items():
        assert torch.equal(saved[f"debiased.{name}"], value)
    assert not torch.equal(saved["biased.0.weight"], saved["debiased.0.weight"])


@pytest.mark.parametrize("strategy", [LFF(), rr.strategies.DivDis()])
def test_other_tasks_are_refused(strategy, tiny_splits, make_net, fit_settings):
    """They were left out in silence."""
    for objective in (rr.recipes.counterexamples(), rr.recipes.erm(class_weights=[1.0, 2.0])):
        with pytest.raises(InvalidSettingError, match="Expected plain cross-entropy for .*but got"):
            strategy.fit(make_net(), objective, tiny_splits, **fit_settings)


def test_both_models_read_all_that_the_forward_takes():
    class Shifted(nn.Module):
        def forward(self, x, *, shift):
            return x + shift

    batch = rr.Batch(
        x=torch.zeros(2, 3), y=torch.tensor([0, 1]), inputs={"shift": torch.ones(2, 1)}
    )
    probe = rr.Probe(Pair(Shifted(), Shifted()), batch, layers=["biased"])
    assert torch.equal(probe.logits, torch.ones(2, 3))
    assert torch.equal(probe.activations["biased"], torch.ones(2, 3))
