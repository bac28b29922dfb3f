import copy

import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidSettingError


def net():
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5))
    return nn.Sequential(body, nn.Flatten(), nn.Linear(16, 3), nn.ReLU(), nn.Linear(3, 2))


def batch():
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(12, 1, 4, 4, generator=generator)
    return rr.Batch(x=x, y=torch.arange(12) % 2)


def changed(model, **settings):
    """The names of parameters and buffers that a fit changes, and the model."""
    before = copy.deepcopy(model.state_dict())
    rr.fit(model, rr.recipes.erm(), batch(), epochs=2, batch_size=4, progress=False, **settings)
    after = model.state_dict()
    return {name for name in before if not torch.equal(before[name], after[name])}


HEAD = {"4.weight", "4.bias"}


@pytest.mark.parametrize(
    ("freeze", "learns"),
    [
        ("body", HEAD),
        ("0.*", {"2.weight", "2.bias", *HEAD}),
        ("0.*, 2.bias", {"2.weight", *HEAD}),
    ],
)
def test_frozen_parameters_and_statistics_stay(freeze, learns):
    model = net()
    assert changed(model, freeze=freeze) == learns
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_without_freezing_everything_learns():
    assert {"0.0.weight", "0.1.running_mean", *HEAD} <= changed(net())


def test_the_head_is_the_layer_that_gives_the_logits():
    """Not the last one in the order of names."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.head, self.body = nn.Linear(3, 2), nn.Linear(16, 3)

        def forward(self, x):
            return self.head(self.body(x.flatten(1)))

    assert changed(Net(), freeze="body") == {"head.weight", "head.bias"}
    one = rr.models.binary(nn.Sequential(nn.Flatten(), nn.Linear(16, 3), nn.Linear(3, 1)))
    assert changed(one, freeze="body") == {"net.2.weight", "net.2.bias"}


def test_the_body_has_its_own_rate():
    slow, frozen = net(), net()
    settings = {"optimizer": "sgd", "momentum": 0.0, "scheduler": "constant", "lr": 0.1}
    assert changed(slow, body_lr=1e-30, **settings) >= HEAD
    slow.load_state_dict(net().state_dict())
    for model, more in ((slow.eval(), {"body_lr": 1e-30}), (frozen.eval(), {"freeze": "body"})):
        model.train()
        for module in model.modules():
            module.training = module is model  # no dropout, no batch statistics
        rr.fit(model, rr.recipes.erm(), batch(), epochs=2, progress=False, **settings, **more)
    torch.testing.assert_close(slow.state_dict(), frozen.state_dict())


def test_what_cannot_be_frozen_is_refused():
    with pytest.raises(InvalidSettingError, match="'backbone.*' names none of 0.0.*word body"):
        changed(net(), freeze="backbone.*")
    with pytest.raises(InvalidSettingError, match="all of them are frozen.*freeze fewer"):
        changed(net(), freeze="*")
    headless = nn.Sequential(nn.Flatten(), nn.Linear(16, 2), nn.Tanh())
    with pytest.raises(InvalidSettingError, match="logits are the output of an nn.Linear"):
        changed(headless, freeze="body")


def test_two_heads_cannot_be_frozen_in_part():
    data = rr.datasets.decoy_digits(seed=0)
    model = rr.models.create("mlp", classes=10, channels=1, size=14, hidden=[4])
    for strategy in (rr.strategies.LFF(), rr.strategies.DivDis()):
        with pytest.raises(InvalidSettingError, match="trains two models or heads at once"):
            strategy.fit(model, rr.recipes.erm(), data, epochs=1, freeze="body")


def test_rates_of_masktune_keep_their_ratio(tmp_path):
    data = rr.datasets.decoy_digits(seed=0)
    model = rr.models.create("lenet", classes=10, channels=1, size=14)
    settings = {"epochs": 2, "lr": 1e-2, "body_lr": 1e-3, "scheduler": "step", "step_epochs": 1}
    rr.strategies.MaskTune().fit(
        model, rr.recipes.erm(), data, out=tmp_path, progress=False, **settings
    )
    saved = torch.load(tmp_path / "stage-2-tune" / "checkpoint.pt", weights_only=True)
    rates = [group["lr"] for group in saved["optimizer"]["param_groups"]]
    assert rates == pytest.approx([1e-3, 1e-4])
