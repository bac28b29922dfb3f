import numpy as np
import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.datasets import InMemory, Splits
from rightreasons.errors import InvalidSettingError
from rightreasons.strategies import DFR
from rightreasons.strategies.dfr import draw_balanced

QUICK = {"num_draws": 2, "head_epochs": 3}


def test_groups_are_equally_many():
    group = torch.tensor([0] * 7 + [1] * 3 + [-1] * 4 + [2] * 5)
    indices = draw_balanced(group, np.random.default_rng(0))
    assert torch.bincount(group[indices]).tolist() == [3, 3, 3]
    assert len(set(indices.tolist())) == 9
    others = draw_balanced(group, np.random.default_rng(1))
    assert indices.tolist() != others.tolist()


@pytest.mark.parametrize("bias", [True, False])
def test_only_the_last_layer_changes(make_net, tiny_splits, fit_settings, bias):
    net, plain = make_net(), make_net()
    net[4] = nn.Linear(144, 2, bias=bias)
    plain[4] = nn.Linear(144, 2, bias=bias)
    plain[4].load_state_dict(net[4].state_dict())
    DFR(**QUICK).fit(net, rr.recipes.erm(), tiny_splits, **fit_settings)
    rr.fit(plain, rr.recipes.erm(), tiny_splits.train, **fit_settings)
    for name, value in plain.state_dict().items():
        assert torch.equal(net.state_dict()[name], value) == (not name.startswith("4."))


def test_the_scale_of_features_is_folded_into_the_layer(make_net, tiny_splits, fit_settings):
    """One head, read off its own stage, gives the logits the model gives."""
    from rightreasons.strategies.strategy import Stages

    heads, original = [], Stages.fit

    def spy(self, name, model, *arguments, **changes):
        heads.append(model)
        return original(self, name, model, *arguments, **changes)

    net = make_net()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stages, "fit", spy)
        strategy = DFR(num_draws=1, head_epochs=3)
        strategy.fit(net, rr.recipes.erm(), tiny_splits, **fit_settings)
    x = tiny_splits.val.batch.x
    features = net[:4](x)
    scaled = (features - features.mean(dim=0)) / features.std(dim=0, correction=0).clamp(min=1e-6)
    torch.testing.assert_close(net(x), heads[1](scaled), rtol=1e-3, atol=1e-3)


def test_it_needs_groups(make_net, tiny_splits, fit_settings):
    batch = tiny_splits.train.batch
    bare = InMemory(rr.Batch(x=batch.x, y=batch.y))
    for splits, words in (
        (Splits(train=bare, val=None, test=bare), "Expected validation data .*no such data"),
        (Splits(train=bare, val=bare, test=bare), "Expected validation data .*no groups"),
    ):
        with pytest.raises(InvalidSettingError, match=words):
            DFR(**QUICK).fit(make_net(), rr.recipes.erm(), splits, **fit_settings)
    splits = Splits(train=tiny_splits.train, val=None, test=tiny_splits.test)
    fitted = DFR(source="train", **QUICK).fit(make_net(), rr.recipes.erm(), splits, **fit_settings)
    assert [row["stage"] for row in fitted.history] == ["train"] * 2 + ["head"] * 6


def test_it_needs_every_class(make_net, tiny_splits, fit_settings):
    """The last layer would never answer a class that it was not fitted on."""
    val = tiny_splits.val.batch
    one = InMemory(val[val.y == 0], tiny_splits.val.card)
    splits = Splits(train=tiny_splits.train, val=one, test=tiny_splits.test)
    name = tiny_splits.val.card.classes[1]
    with pytest.raises(InvalidSettingError, match=f"in every class for DFR, .*none of {name}"):
        DFR(**QUICK).fit(make_net(), rr.recipes.erm(), splits, **fit_settings)


@pytest.mark.parametrize("strategy", [DFR(**QUICK), rr.strategies.DivDis()])
def test_a_model_with_one_logit_is_refused(make_net, tiny_splits, fit_settings, strategy):
    net = make_net()
    net[4] = nn.Linear(144, 1)
    with pytest.raises(InvalidSettingError, match="for each of 2 classes, but it has 1"):
        strategy.fit(rr.models.Binary(net), rr.recipes.erm(), tiny_splits, **fit_settings)
