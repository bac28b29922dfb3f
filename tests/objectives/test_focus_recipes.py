import pytest
import torch

import rightreasons as rr
from rightreasons.models import attention_branch, resnet18
from rightreasons.objectives import reff as focus_recipes

BATCH = rr.Batch(
    x=torch.rand(4, 3, 8, 8), y=torch.tensor([0, 1, 0, 1]), mask=torch.ones(4, 1, 8, 8)
)


@pytest.mark.parametrize("name", focus_recipes.__all__)
def test_recipes_are_listed_and_work_with_their_defaults(name):
    make = attention_branch if name == "abn" else resnet18
    net = make(classes=2, size=8, width=1 / 32)
    loss = rr.recipes.RECIPES.create(name)(net, BATCH)
    loss.backward()
    assert all(bool(parameter.grad.isfinite().all()) for parameter in net.parameters())


@pytest.mark.parametrize("name", ["reff", "reff_l1", "reff_l2"])
def test_settings_reach_the_term(name):
    objective = getattr(rr.recipes, name)(
        weight=2.0,
        layers=["layer3", "layer4"],
        layer_weights=[0.5, 1.0],
        target="margin",
        weight_decay=0.1,
        class_weights=[1.0, 2.0],
    )
    term = objective.terms[name]
    assert (term.layers, term.layer_weights) == (("layer3", "layer4"), (0.5, 1.0))
    assert term.target == "margin"
    assert objective.weights == {"cross_entropy": 1.0, name: 2.0, "weight_decay": 0.1}
    assert objective.terms["cross_entropy"].class_weights.tolist() == [1, 2]


def test_both_weights_of_abn():
    weights = rr.recipes.abn(weight=3.0, attention_weight=0.5).weights
    assert weights == {"cross_entropy": 1.0, "attention_cross_entropy": 0.5, "abn": 3.0}
