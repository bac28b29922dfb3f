import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.errors import NonFiniteLossError
from rightreasons.objectives import CrossEntropy, Term


class Bad(Term):
    """Infinite in value, or in its gradient at zero."""

    def __init__(self, *, in_value):
        super().__init__()
        self.in_value = in_value

    def forward(self, probe):
        if self.in_value:
            return probe.logits.sum(dim=1) / 0.0
        return (0.0 * probe.logits.sum(dim=1)).abs().sqrt()


@pytest.mark.parametrize(
    ("in_value", "words"),
    [(True, "the term `bad` became NaN"), (False, "the gradient of `bad` became NaN")],
)
def test_nothing_reaches_the_weights(in_value, words):
    model = nn.Linear(3, 2)
    before = model.weight.detach().clone()
    batch = rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1]))
    with pytest.raises(NonFiniteLossError, match=words) as stopped:
        rr.fit(model, CrossEntropy() + 1.0 * Bad(in_value=in_value), batch, epochs=1)
    assert torch.equal(model.weight, before)
    assert "last good state" not in str(stopped.value)  # no folder was given
    assert "Lower the learning rate" in str(stopped.value)


class Blows(nn.Module):
    """Gives NaN at its sixth pass, through BatchNorm."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.net(x * float("nan") if self.calls == 6 else x)


def test_what_is_saved_is_the_state_before_the_bad_pass(tmp_path):
    batch = rr.Batch(x=torch.rand(64, 5), y=torch.arange(64) % 3, group=torch.arange(64) % 2)
    objective = rr.recipes.group_dro(num_groups=2)
    with pytest.raises(NonFiniteLossError):
        rr.fit(Blows(), objective, batch, epochs=3, batch_size=16, out=tmp_path)
    saved = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert saved["model"]["net.1.running_mean"].isfinite().all()
    assert saved["model"]["net.1.num_batches_tracked"] == 5
    assert saved["objective"]["terms.group_dro.log_weights"].isfinite().all()
    assert saved["position"]["sums"]["samples"] == 16  # the epoch's first update, not the bad one
