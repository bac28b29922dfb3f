import pytest

from rightreasons.benchmark.suites import reff_part as reff
from rightreasons.models import create
from rightreasons.objectives.recipes import RECIPES


def test_every_method_has_candidates_and_a_recipe():
    assert set(reff.METHODS) == set(reff.GRIDS)
    for name, overrides in reff.METHODS.items():
        for candidate in reff.GRIDS[name]:
            settings = {**overrides.get("settings", {}), **candidate.get("settings", {})}
            assert RECIPES.create(overrides["recipe"], **settings).weights["cross_entropy"] == 1


@pytest.mark.parametrize("model", ["resnet18", "attention_branch"])
def test_nets_can_be_built(model):
    net = create(model, classes=10, channels=3, size=32, **reff.BASE["model_settings"])
    assert net.get_submodule("layer4" if model == "resnet18" else "attention") is not None


def test_methods_by_name():
    assert [method.name for method in reff.methods("R3", "ABN")] == ["R3", "ABN"]
    assert len(reff.methods()) == len(reff.METHODS)


def test_budgets_say_how_many_images():
    small = reff.BUDGETS["small"].overrides
    assert small["data_settings"] == {"num_train": 4000, "num_validation": 500, "num_test": 2000}
    assert small["epochs"] == 8
