import pytest

import rightreasons as rr
from rightreasons.objectives import r4 as robust_recipes


@pytest.mark.parametrize("name", robust_recipes.__all__)
def test_recipes_are_listed_and_their_settings_reach_the_term(name):
    recipe = getattr(robust_recipes, name)
    assert getattr(rr.recipes, name) is recipe
    objective = recipe(epsilon=0.25, weight=2.0, class_weights=[1.0, 2.0])
    term = objective.terms[name.removesuffix("_r3") if name == "ibp_ex_r3" else name]
    assert term.epsilon == 0.25
    assert 2.0 in objective.weights.values()
    assert objective.terms["cross_entropy"].class_weights.tolist() == [1, 2]


def test_both_parts_of_ibp_ex_r3_have_weights_of_their_own():
    weights = rr.recipes.ibp_ex_r3(weight=2.0, r3_weight=5.0, weight_decay=0.1).weights
    assert weights == {"cross_entropy": 1.0, "ibp_ex": 2.0, "r3": 5.0, "weight_decay": 0.1}
