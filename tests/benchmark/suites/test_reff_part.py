import pytest
import torch

from rightreasons.benchmark.suites import reff
from rightreasons.explainers.spatial_layers import resolution_layers
from rightreasons.models import create
from rightreasons.objectives.recipes import RECIPES


def test_every_method_has_candidates_and_a_recipe():
    assert set(reff.METHODS) == set(reff.GRIDS)
    for name, overrides in reff.METHODS.items():
        for candidate in reff.GRIDS[name]:
            settings = {**overrides.get("settings", {}), **candidate.get("settings", {})}
            assert RECIPES.create(overrides["recipe"], **settings).weights["cross_entropy"] == 1


@pytest.mark.parametrize("name", ["baseline", "ABN"])
def test_heat_is_measured_at_the_layers_reff_finds(name):
    method = reff.METHODS[name]
    net = create(method["model"], classes=10, channels=3, size=32, **method["model_settings"])
    measured = method.get("metric_settings", reff.BASE["metric_settings"])["cam_mass"]["layer"]
    prefix = "features." if name == "ABN" else ""
    assert measured == [prefix + layer for layer in reff.PLACES]
    x = torch.rand(2, 3, 32, 32)
    if name == "baseline":
        assert tuple(measured) == tuple(resolution_layers(net, x))
    for layer in measured:
        assert net.get_submodule(layer) is not None


def test_methods_by_name():
    assert [method.name for method in reff.methods("R3", "ABN")] == ["R3", "ABN"]
    assert len(reff.methods()) == len(reff.METHODS)


def test_budgets_say_how_many_images():
    small = reff.BUDGETS["small"].overrides
    assert small["data_settings"] == {"num_train": 4000, "num_validation": 500, "num_test": 2000}
    assert small["epochs"] == 8
