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
