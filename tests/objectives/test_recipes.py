import pytest

import rightreasons as rr
from rightreasons.objectives.recipes import RECIPES

# Those for other nets are tried in test_focus_recipes and test_selective_recipes.
ON_OTHER_NETS = ("abn", "deep_gamblers", "reff", "reff_l1", "reff_l2", "selective_net")


@pytest.mark.parametrize("name", [name for name in RECIPES if name not in ON_OTHER_NETS])
def test_every_recipe_works_with_its_defaults(name, tiny_net, tiny_batch):
    loss = RECIPES.create(name)(tiny_net, tiny_batch)
    loss.backward()
    assert all(parameter.grad is not None for parameter in tiny_net.parameters())
    assert getattr(rr.recipes, name) is RECIPES[name]


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_takes_weight_decay(name):
    assert RECIPES.create(name, weight_decay=0.1).weights["weight_decay"] == 0.1


def test_unknown_recipe_names_the_nearest():
    with pytest.raises(rr.errors.UnknownNameError, match="got 'r33'. Did you mean 'r3'"):
        RECIPES.create("r33")


def test_unknown_setting_names_those_there_are():
    with pytest.raises(rr.errors.InvalidSettingError, match="among: weight, target.* got wieght"):
        RECIPES.create("r3", wieght=3)
