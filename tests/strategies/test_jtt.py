import numpy as np
import pytest
import torch

import rightreasons as rr
from rightreasons.strategies import JTT
from rightreasons.strategies.jtt import find_errors
from rightreasons.strategies.strategy import Stages


def test_errors_of_the_first_model_are_repeated(make_net, tiny_splits, fit_settings, tmp_path):
    first, seen = make_net(), []
    settings = {**fit_settings, "epochs": 1, "lr": 0.001}
    rr.fit(first, rr.recipes.erm(), tiny_splits.train, **settings)
    errors = (first(tiny_splits.train.batch.x).argmax(dim=1) != tiny_splits.train.labels).nonzero()
    assert 0 < len(errors) < 64

    original = Stages.fit

    def spy(self, name, model, objective, data, **changes):
        seen.append((data, {n: v.clone() for n, v in model.state_dict().items()}))
        return original(self, name, model, objective, data, **changes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stages, "fit", spy)
        strategy = JTT(first_lr=0.001, upweight=3)
        strategy.fit(make_net(), rr.recipes.erm(), tiny_splits, out=tmp_path, **fit_settings)
    counts = torch.bincount(seen[1][0].places, minlength=64)
    expected = torch.ones(64, dtype=torch.int64)
    expected[errors.flatten()] = 3
    assert torch.equal(counts, expected)
    kept = np.load(tmp_path / "stage-2-errors.npy")
    assert np.flatnonzero(kept).tolist() == errors.flatten().tolist()
    for name, value in make_net().state_dict().items():  # the second begins anew
        assert torch.equal(seen[1][1][name], value)


def test_no_errors_are_told(make_net, tiny_splits, fit_settings, caplog, monkeypatch):
    monkeypatch.setattr(
        "rightreasons.strategies.jtt.find_errors", lambda model, data: [np.zeros(64, dtype=bool)]
    )
    fitted = JTT().fit(make_net(), rr.recipes.erm(), tiny_splits, **fit_settings)
    assert "made no error on the training data" in caplog.text
    assert [row["stage"] for row in fitted.history] == ["identify", "train", "train"]


def test_wrong_answers(make_net, tiny_splits):
    net = make_net()
    (wrong,) = find_errors(net, tiny_splits.val)
    expected = net.eval()(tiny_splits.val.batch.x).argmax(dim=1) != tiny_splits.val.labels
    assert wrong.tolist() == expected.tolist()
