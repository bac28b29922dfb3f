import pytest

import rightreasons as rr
from rightreasons.objectives import alignment as alignment_recipes


@pytest.mark.parametrize("name", alignment_recipes.__all__)
def test_recipes_are_listed_and_their_settings_reach_the_term(name):
    recipe = getattr(alignment_recipes, name)
    assert getattr(rr.recipes, name) is recipe
    objective = recipe(weight=2.0, class_weights=[1.0, 2.0], weight_decay=0.1)
    term = "cosine_alignment" if name == "alignment" else name
    assert objective.weights[term] == 2.0
    assert objective.weights["weight_decay"] == 0.1
    assert objective.terms["cross_entropy"].class_weights.tolist() == [1, 2]
    if name != "hessian":
        assert recipe(epsilon=0.25).terms[term].epsilon == 0.25


def test_both_parts_of_alignment_have_equal_settings():
    settings = {"epsilon": 0.1, "perturbation": "sign", "target": "loss", "detach_source": False}
    terms = rr.recipes.alignment(l2_weight=3.0, norm="l1", **settings).terms
    for name in ("cosine_alignment", "l2_alignment"):
        assert {key: getattr(terms[name], key) for key in settings} == settings
    assert terms["l2_alignment"].norm == "l1"


def test_the_weights_of_the_paper_are_converted_to_unit_inputs():
    """Inputs divided by 1/4 have gradients a quarter and Hessians a sixteenth as large."""
    assert rr.recipes.l2_alignment().weights["l2_alignment"] == pytest.approx(0.01 / 4**2)
    assert rr.recipes.hessian().weights["hessian"] == pytest.approx(1e-3 / 4**4)
