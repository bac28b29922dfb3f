import pytest

import rightreasons as rr
from rightreasons.objectives import density as density_recipes


@pytest.mark.parametrize("name", density_recipes.__all__)
def test_recipes_are_listed_and_take_weight_decay(name):
    recipe = getattr(density_recipes, name)
    assert getattr(rr.recipes, name) is recipe
    assert recipe(weight_decay=0.1).weights["weight_decay"] == 0.1


def test_settings_reach_the_terms():
    term = rr.recipes.density(form="stable", p=1.2).terms["density"]
    assert (term.form, term.p) == ("stable", 1.2)
    both = rr.recipes.group_dro_density(weight=3.0, num_groups=4, step_size=0.1, p=3.0)
    assert both.weights == {"group_dro": 1.0, "density": 3.0}
    assert (both.terms["group_dro"].num_groups, both.terms["density"].p) == (4, 3.0)
    matching = rr.recipes.score_matching(epsilon=0.1, num_samples=3, stability=0.5)
    term = matching.terms["score_matching"]
    assert (term.epsilon, term.num_samples, term.stability) == (0.1, 3, 0.5)
    attacked = rr.recipes.at_pgd(epsilon=0.3, num_steps=7, step_size=0.01, norm="l2")
    term = attacked.terms["adversarial_training"]
    assert (term.ball.epsilon, term.ball.norm, term.num_steps) == (0.3, "l2", 7)
    assert term.step_size == 0.01 and term.random_start


def test_fgsm_is_one_full_step_from_the_sample():
    term = rr.recipes.at_fgsm(epsilon=0.3).terms["adversarial_training"]
    assert (term.num_steps, term.step_size, term.random_start) == (1, 0.3, False)


def test_clean_samples_are_mixed_in():
    assert rr.recipes.at_fgsm(clean_weight=0.25, class_weights=[1.0, 2.0]).weights == {
        "cross_entropy": 0.25,
        "adversarial_training": 0.75,
    }
    assert rr.recipes.at_fgsm(clean_weight=0.0).weights == {"adversarial_training": 1.0}
    with pytest.raises(rr.errors.InvalidSettingError, match="Expected `clean_weight` to be a num"):
        rr.recipes.at_pgd(clean_weight=1.0)


def test_softplus_is_a_setting_of_the_model():
    net = rr.models.create("mlp2", classes=10, channels=1, size=(56, 28), activation="softplus")
    assert "Softplus" in repr(net) and "ReLU" not in repr(net)
