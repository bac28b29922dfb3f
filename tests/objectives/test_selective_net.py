import pytest
import torch
from tests.reference import selective as slow
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives import SelectiveNet


class Given(nn.Module):
    """Logits, the selection and the auxiliary logits are the features themselves."""

    def __init__(self):
        super().__init__()
        self.selection = nn.Identity()
        self.auxiliary_logits = nn.Identity()

    def forward(self, x):
        self.selection(x[:, 3:4])
        self.auxiliary_logits(x[:, 4:])
        return x[:, :3]


def losses_of(x, y, **settings):
    probe = rr.Probe(Given(), rr.Batch(x=x, y=y), layers=["selection", "auxiliary_logits"])
    return SelectiveNet(**settings)(probe)


@pytest.mark.parametrize("coverage", [0.2, 0.95])
def test_equals_its_slow_twin(coverage):
    x, y = 2 * torch.randn(6, 7, dtype=torch.float64), torch.tensor([0, 1, 2] * 2)
    settings = {"coverage": coverage, "weight": 16.0, "alpha": 0.3}
    losses = losses_of(x, y, **settings)
    parts = (x[:, :3].tolist(), x[:, 3].tolist(), x[:, 4:].tolist(), y.tolist())
    assert losses.shape == (6,)
    assert losses.mean().item() == pytest.approx(slow.selective_net(*parts, **settings))


def test_is_finite_where_nothing_is_selected():
    x = torch.zeros(2, 7)
    x[:, 3] = -1000
    x.requires_grad_()
    losses = losses_of(x, torch.tensor([0, 1]))
    losses.sum().backward()
    assert losses.isfinite().all() and x.grad.isfinite().all()


def test_mistakes():
    for name in ("coverage", "alpha"):
        with pytest.raises(InvalidSettingError, match=f"`{name}` to be a share above 0 and up to"):
            SelectiveNet(**{name: 1.2})
    with pytest.raises(InvalidSettingError, match="`weight` to be a finite number above 0"):
        SelectiveNet(weight=0)
