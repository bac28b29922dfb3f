import inspect

import pytest
import torch

import rightreasons as rr
from rightreasons.core.checks import settings_of
from rightreasons.models import attention_branch, create, resnet18
from rightreasons.objectives import R3, CrossEntropy, WeightDecay
from rightreasons.objectives.recipe import recipe
from rightreasons.objectives.recipes import RECIPES

IMAGES = rr.Batch(
    x=torch.rand(4, 3, 8, 8), y=torch.tensor([0, 1, 0, 1]), mask=torch.ones(4, 1, 8, 8)
)
# Recipes for other nets than the tiny one; see contracts/test_layer_terms
ON_IMAGES = ("abn", "reff", "reff_l1", "reff_l2")
ON_OTHER_NETS = (*ON_IMAGES, "deep_gamblers", "selective_net")
ON_TEXTS = ["token_adv_r4", "token_rand_r4", "token_smooth_r3"]  # see test_token_r4.py
# Defaults in which a recipe differs from its term, each with its reason beside the recipe
DIFFERENT = {
    ("deep_gamblers", "warm_up"),
    ("ibp_ex", "epsilon"),
    ("ibp_ex_r3", "epsilon"),
    ("smooth_r3", "num_samples"),
}
SETTINGS = {
    "epsilon": 0.25,
    "num_samples": 1,
    "num_steps": 7,
    "step_size": 0.05,
    "num_segments": 2,
    "norm_weight": 0.5,
    "perturbation": "sign",
    "detach_source": False,
    "target": "loss",
    "form": "change",
    "valid_range": (-1.0, 2.0),
    "layers": ("layer3", "layer4"),
    "layer_weights": (0.5, 1.0),
    "stability": 0.5,
    "temperature": 2.0,
    "gamma": 0.1,
    "reward": 3.0,
    "warm_up": 0.1,
    "coverage": 0.7,
    "alpha": 0.4,
    "mu": 0.5,
    "num_groups": 4,
    "adjustment": 0.0,
    "label_smoothing": 0.1,
    "random_start": False,
    "p": 1.2,
}


@pytest.mark.parametrize("name", [n for n in RECIPES if n not in (*ON_OTHER_NETS, *ON_TEXTS)])
def test_every_recipe_works_with_its_defaults(name, tiny_net, tiny_batch):
    loss = RECIPES.create(name)(tiny_net, tiny_batch)
    loss.backward()
    assert all(parameter.grad is not None for parameter in tiny_net.parameters())


@pytest.mark.parametrize("name", ON_IMAGES)
def test_recipes_for_images_work_with_their_defaults(name):
    make = attention_branch if name == "abn" else resnet18
    net = make(classes=2, size=8, width=1 / 32)
    loss = RECIPES.create(name)(net, IMAGES)
    loss.backward()
    assert all(bool(parameter.grad.isfinite().all()) for parameter in net.parameters())


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_takes_weight_decay(name):
    assert RECIPES.create(name, weight_decay=0.1).weights["weight_decay"] == 0.1


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_a_documented_function_of_its_own_name(name):
    made = RECIPES[name]
    assert getattr(rr.recipes, name) is made
    assert inspect.isfunction(made) and made.__name__ == made.__qualname__ == name
    assert made.__module__.startswith("rightreasons.objectives.")
    assert f">>> {name}(" in inspect.getdoc(made)


@pytest.mark.parametrize("name", RECIPES)
def test_defaults_are_those_of_the_terms(name):
    settings = RECIPES.settings(name)
    assert settings["weight_decay"] == 0.0
    for term in RECIPES.create(name).terms.values():
        for setting, parameter in settings_of(type(term)).items():
            if setting in settings and setting != "weight":
                assert (settings[setting] == parameter.default) == (
                    (name, setting) not in DIFFERENT
                )


@pytest.mark.parametrize("name", RECIPES)
def test_settings_reach_the_terms(name):
    offered = RECIPES.settings(name)
    settings = {setting: value for setting, value in SETTINGS.items() if setting in offered}
    if name in ("density", "group_dro_density"):
        settings["form"] = "stable"
    if name == "token_rand_r4":
        settings["form"] = "elementwise"
    objective = RECIPES.create(name, **settings)
    reached = set()
    for term in objective.terms.values():
        for setting in settings_of(type(term)).keys() & settings.keys():
            holder = term if hasattr(term, setting) else term.ball
            assert getattr(holder, setting) == settings[setting], setting
            reached.add(setting)
    assert reached == set(settings)


@pytest.mark.parametrize("name", [n for n in RECIPES if "class_weights" in RECIPES.settings(n)])
def test_class_weights_reach_the_cross_entropy(name):
    objective = RECIPES.create(name, class_weights=[1.0, 2.0])
    attacked = objective.terms["adversarial_training"] if name.startswith("at_") else None
    attacked = objective.terms["counter_examples"] if name == "counterexamples" else attacked
    task = attacked.task if attacked is not None else objective.terms["cross_entropy"]
    assert task.class_weights.tolist() == [1, 2]


def test_unknown_recipe_names_the_nearest():
    with pytest.raises(rr.errors.UnknownNameError, match="got 'r33'. Did you mean 'r3'"):
        RECIPES.create("r33")


def test_unknown_setting_names_those_there_are():
    with pytest.raises(rr.errors.InvalidSettingError, match="among: weight, target.* got wieght"):
        RECIPES.create("r3", wieght=3)
    with pytest.raises(TypeError, match=r"r3\(\) got an unexpected keyword argument 'wieght'"):
        rr.recipes.r3(wieght=3)
    with pytest.raises(TypeError, match=r"r3\(\) takes 0 positional arguments"):
        rr.recipes.r3(30.0)


def test_penalties_come_on_top_of_the_task():
    objective = rr.recipes.r3(weight=2.0, weight_decay=0.5, class_weights=[1.0, 3.0])
    assert objective.weights == {"cross_entropy": 1.0, "r3": 2.0, "weight_decay": 0.5}
    assert objective.terms["cross_entropy"].class_weights.tolist() == [1, 3]


def test_without_decay_nothing_is_added():
    assert list(rr.recipes.r3(weight_decay=0.0).weights) == ["cross_entropy", "r3"]


def test_a_formula_with_a_task_gets_no_other():
    @recipe(CrossEntropy, WeightDecay, label_smoothing=0.2, without=["class_weights"])
    def formula(task, decay, *, factor=3.0):
        return task + factor * decay

    assert list(inspect.signature(formula).parameters) == [
        *("factor", "label_smoothing", "include_vectors", "weight_decay")
    ]
    assert formula().weights == {"cross_entropy": 1.0, "weight_decay": 3.0}
    assert formula().terms["cross_entropy"].label_smoothing == 0.2


def test_a_default_must_be_one_of_a_setting():
    with pytest.raises(KeyError, match="epsilon"):
        recipe(R3, epsilon=0.1)(lambda task, penalty: task + penalty)


def test_both_parts_of_alignment_have_equal_settings():
    settings = {"epsilon": 0.1, "perturbation": "sign", "target": "loss", "detach_source": False}
    terms = rr.recipes.alignment(l2_weight=3.0, norm="l1", **settings).terms
    for name in ("cosine_alignment", "l2_alignment"):
        assert {key: getattr(terms[name], key) for key in settings} == settings
    assert terms["l2_alignment"].norm == "l1"


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("ibp_ex_r3", {"ibp_ex": ("weight", 2.0), "r3": ("r3_weight", 5.0)}),
        ("alignment", {"cosine_alignment": ("weight", 2.0), "l2_alignment": ("l2_weight", 5.0)}),
        ("abn", {"attention_cross_entropy": ("attention_weight", 0.5), "abn": ("weight", 3.0)}),
        ("group_dro_density", {"density": ("weight", 3.0)}),
    ],
)
def test_each_part_has_its_own_weight(name, weights):
    objective = RECIPES.create(name, **dict(weights.values()))
    task = "group_dro" if name == "group_dro_density" else "cross_entropy"
    assert objective.weights == {task: 1.0} | {term: w for term, (_, w) in weights.items()}


def test_the_weights_of_the_paper_are_converted_to_unit_inputs():
    """Inputs divided by 1/4 have gradients a quarter and Hessians a sixteenth as large."""
    assert rr.recipes.l2_alignment().weights["l2_alignment"] == pytest.approx(0.01 / 4**2)
    assert rr.recipes.hessian().weights["hessian"] == pytest.approx(1e-3 / 4**4)


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
    net = create("mlp2", classes=10, channels=1, size=(56, 28), activation="softplus")
    assert "Softplus" in repr(net) and "ReLU" not in repr(net)


@pytest.mark.parametrize(
    "name", ["cvar_dro", "deep_gamblers", "group_dro", "one_sided", "selective_net"]
)
def test_each_is_the_task_and_has_its_name(name):
    objective = RECIPES.create(name)
    assert (
        list(objective.terms)
        == [objective.task]
        == [name.removesuffix("_dro") if name == "cvar_dro" else name]
    )
    assert objective.terms[objective.task].is_task
