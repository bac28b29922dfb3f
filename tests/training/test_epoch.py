import torch
from torch import nn

import rightreasons as rr
from rightreasons.metrics import METRICS
from rightreasons.training.settings import SELECTIONS


def test_every_selection_is_by_a_metric_there_is():
    for chosen in SELECTIONS.values():
        assert chosen is None or chosen[0] in METRICS


def test_a_tie_keeps_the_earlier_epoch():
    batch = rr.Batch(x=torch.zeros(4, 3), y=torch.tensor([0, 0, 0, 1]))
    fitted = rr.fit(
        nn.Linear(3, 2),
        rr.recipes.erm(),
        batch,
        validation=batch,
        epochs=4,
        select="accuracy",
        lr=1.0,
    )
    values = [row["validation"]["accuracy"] for row in fitted.history]
    assert fitted.selection["epoch"] == values.index(max(values)) + 1
    assert values.count(max(values)) > 1


def test_rows_without_validation_have_none():
    batch = rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1]))
    fitted = rr.fit(nn.Linear(3, 2), rr.recipes.erm(), batch, epochs=1)
    assert "validation" not in fitted.history[0]
    assert fitted.history[0]["updates"] == 1


def test_the_model_is_left_in_test_mode():
    batch = rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1]))
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 2))
    rr.fit(model, rr.recipes.erm(), batch, epochs=1)
    assert not any(module.training for module in model.modules())
    assert torch.equal(model(batch.x), model(batch.x))
