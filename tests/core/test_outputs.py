import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.core.outputs import last_operation, refuse_probabilities
from rightreasons.errors import InvalidBatchError

X, Y = torch.randn(6, 4), torch.arange(6) % 3
MODEL = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1))


@pytest.mark.parametrize("use", ["fit", "evaluate", "explain", "loss"])
def test_no_entrance_takes_probabilities_in_silence(use):
    batch = rr.Batch(x=X, y=Y)
    uses = {
        "fit": lambda: rr.fit(MODEL, rr.recipes.erm(), batch, epochs=1, progress=False),
        "evaluate": lambda: rr.evaluate(MODEL, batch, ["calibration_error"]),
        "explain": lambda: rr.explainers.InputGradient()(MODEL, X, Y),
        "loss": lambda: rr.recipes.r3()(MODEL, batch.replace(mask=torch.ones(6, 1))),
    }
    with pytest.raises(InvalidBatchError, match="ends in softmax: its outputs are probabilities"):
        uses[use]()


def test_reshaped_probabilities_are_seen_too():
    logits = torch.randn(4, 3, 1, requires_grad=True)
    with pytest.raises(InvalidBatchError, match="softmax"):
        refuse_probabilities(logits.softmax(dim=1).squeeze(2).clone())
    with pytest.raises(InvalidBatchError, match="softmax"):
        refuse_probabilities(torch.randn(4, 3).softmax(dim=1))


@pytest.mark.parametrize(
    "logits",
    [
        torch.randn(4, 3).log_softmax(dim=1),
        torch.eye(3),
        torch.rand(4, 3),
        torch.rand(4, 1),
        torch.full((2, 2), 0.25),
    ],
)
def test_logits_pass(logits):
    refuse_probabilities(logits)
    refuse_probabilities(logits.clone().requires_grad_() * 1.0)


def test_the_last_operation_is_named():
    x = torch.zeros(2, 2, requires_grad=True)
    assert last_operation(x.tanh().reshape(4)[1:]) == "Tanh"
    assert last_operation(x) == ""
