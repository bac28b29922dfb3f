"""What the diagnosis says after trainings that went wrong in known ways, and after good ones."""

import logging

import pytest
import torch
from tests.tagged_pictures import SIDE, pictures
from torch import nn

import rightreasons as rr
from rightreasons.datasets import InMemory
from rightreasons.errors import InvalidBatchError
from rightreasons.metrics import SwapAccuracy
from rightreasons.objectives.recipes import RECIPES
from rightreasons.training.examination import MaskFacts, look_at_masks


def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(SIDE**2, 32), nn.ReLU(), nn.Linear(32, 2))


def fitted(data, objective, *, epochs=15, validation=None, lr=0.01, batch_size=50):
    torch.manual_seed(0)
    return rr.fit(
        net(),
        objective,
        data,
        validation=validation,
        epochs=epochs,
        lr=lr,
        batch_size=batch_size,
        accelerator="cpu",
        progress=False,
    ).diagnosis


ERM, R3 = rr.recipes.erm, rr.recipes.r3
CASES = {
    "clean: the tag says nothing": ({"tag": 0.0}, ERM(), set()),
    "clean: a penalty that works": ({}, R3(weight=10.0, target="margin"), set()),
    "clean: a faint tag beside an easy task": ({"core": 0.9, "tag": 0.1}, ERM(), set()),
    "cross-entropy alone": ({"core": 0.05}, ERM(), {"reads_mask"}),
    "soft masks": ({"core": 0.05, "strength": 0.3}, ERM(), {"reads_mask"}),
    "weight 0": ({"core": 0.05}, R3(weight=0.0), {"penalty_off", "reads_mask"}),
    "weight 1e6": ({}, R3(weight=1e6), {"learning_switched_off"}),
    "shrunken logits": (
        {"core": 0.0},
        R3(weight=100.0),
        {"reads_mask", "shrunken_logits"},
    ),
    "masks on one class": (
        {"core": 0.0, "tagged": (1,)},
        ERM(),
        {"reads_mask", "masks_tell_class"},
    ),
    "polarity swapped, all but the tag": (
        {"core": 0.3, "masks": "inverted"},
        R3(weight=10.0),
        {"polarity"},
    ),
    "polarity swapped, the object": (
        {"tag": 0.0, "masks": "middle"},
        ERM(),
        {"reads_mask", "polarity"},
    ),
    "a shortcut outside the masks": (
        {"core": 0.03, "tag": 0.0, "hidden": 0.8, "broken": 0.1},
        ERM(),
        {"gap_elsewhere"},
    ),
    "masked parts that are all alike": (
        {"tag": 0.0, "noise": 0.0},
        R3(weight=1.0),
        {"swap_says_little"},
    ),
}
SENTENCES = {
    "reads_mask": "The model still reads the masked part: swapping it costs ",
    "penalty_off": "The weight of `r3` is 0, so it did nothing.",
    "learning_switched_off": "A penalty switched learning off (training accuracy 0.500, ",
    "shrunken_logits": "The penalty `r3` was met by shrinking the logits: ",
    "masks_tell_class": "Classes differ in how often or where they carry masks",
    "polarity": "Is the polarity right? A mask must be 1 where the model must *not* look.",
    "gap_elsewhere": "There may be a shortcut outside the masks, or it is hard",
    "swap_says_little": "The swap changed only 0% of the samples, so it says little.",
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_found(case, caplog):
    made, objective, expected = CASES[case]
    with caplog.at_level(logging.WARNING, logger="rightreasons.diagnosis"):
        found = fitted(pictures(**made), objective, validation=pictures(seed=1, **made))
    assert set(found.findings) == expected
    assert {name for name, start in SENTENCES.items() if start in found.message} == expected
    assert found.learned == ("learning_switched_off" not in expected)
    assert (found.message in caplog.messages) == bool(expected)
    if not expected:
        assert "Swapping the masked part costs 0.0 points on 400 validation" in found.message
    asked_first = caplog.messages and "Is the polarity right?" in caplog.messages[0]
    assert bool(asked_first) == ("polarity" in expected)


def test_the_cost_is_that_of_the_swap_on_validation_data():
    validation = pictures(seed=1, core=0.05)
    torch.manual_seed(0)
    model = net()
    found = rr.fit(
        model, ERM(), pictures(core=0.05), validation=validation, epochs=15, lr=0.01, batch_size=50
    ).diagnosis
    values = rr.evaluate(model, validation, ["accuracy", SwapAccuracy(num_draws=2)])
    assert found.measures["cost"] == values["swap_accuracy/cost"]
    assert found.measures["accuracy"] == values["accuracy"]
    assert found.measures["on_validation"] == 1
    points = round(100 * found.measures["cost"])
    assert f"swapping it costs {points} points on 400 validation samples" in found.message
    known = "counterexamples" in RECIPES
    assert ("Try the recipe `counterexamples`" in found.message) == known


def test_without_validation_masks_training_samples_are_swapped():
    for validation in (None, pictures(60).replace(mask=None, annotated=None)):
        found = fitted(pictures(core=0.05), ERM(), validation=validation)
        assert (found.measures["on_validation"], found.measures["samples"]) == (0, 400)
        assert "on 400 training samples" in found.message


def test_at_most_500_samples_in_passes_no_larger_than_a_batch():
    seen = []

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = net()

        def forward(self, x):
            if not self.training:
                seen.append((len(x), torch.is_grad_enabled()))
            return self.inner(x)

    rr.fit(Counting(), ERM(), pictures(900), epochs=1, batch_size=40)
    assert max(seen) == (40, False)
    assert sum(size for size, _ in seen) == 500 * (1 + 2)


def test_data_without_masks_are_told_nothing_new():
    found = fitted(pictures().replace(mask=None, annotated=None), ERM())
    assert (found.findings, found.measures) == ((), {})
    assert found.message.endswith("most frequent class 0.500).")


def test_a_penalty_that_grows_from_zero_is_seen():
    """At the first update of the only epoch its weight is still zero."""
    grown = rr.recipes.pgd_ex(weight=1e7, ramp=0.9, epsilon=0.5)
    torch.manual_seed(0)
    fit = rr.fit(net(), grown, pictures(), epochs=1, batch_size=20, lr=0.05)
    assert fit.history[0]["pulls"]["pgd_ex"] > 0


def test_the_diagnosis_changes_neither_weights_nor_random_streams(monkeypatch):
    def trained():
        torch.manual_seed(3)
        model = net()
        rr.fit(model, R3(weight=3.0), pictures(), epochs=2, batch_size=50)
        return [*model.state_dict().values(), torch.rand(3)]

    with_it = trained()
    monkeypatch.setattr("rightreasons.training.diagnosis.examine", lambda *a, **b: None)
    monkeypatch.setattr("rightreasons.training.monitor.gradient_norms", lambda loss: {})
    monkeypatch.setattr("rightreasons.training.diagnosis.look_at_masks", lambda data: MaskFacts())
    assert all(torch.equal(a, b) for a, b in zip(with_it, trained(), strict=True))


def test_a_check_that_cannot_be_made_does_not_take_the_fit_away(monkeypatch, caplog):
    def refuse(*parts, **settings):
        raise InvalidBatchError("Expected something else.")

    monkeypatch.setattr("rightreasons.training.examination.evaluate", refuse)
    with caplog.at_level(logging.INFO, logger="rightreasons"):
        found = fitted(pictures(), ERM())
    assert found.learned
    assert "The masked parts of training samples were not swapped" in caplog.text


@pytest.mark.parametrize(
    ("mask", "asked"),
    [
        (torch.ones(20, 5), True),  # nothing is left of a table
        (torch.eye(5)[torch.arange(20) % 5], False),
        (torch.zeros(20, 1, 8, 8), False),
    ],
    ids=["all columns", "one column", "no mask"],
)
def test_the_polarity_is_asked_about_where_nothing_is_left(mask, asked):
    batch = rr.Batch(x=torch.rand(20, *mask.shape[1:]), y=torch.arange(20) % 2, mask=mask)
    assert bool(look_at_masks(InMemory(batch)).looks_inverted) == asked
