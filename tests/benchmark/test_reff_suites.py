import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rightreasons.annotators import draw_annotated, find_annotated
from rightreasons.benchmark.plan import list_lines, plan
from rightreasons.benchmark.suites import reff
from rightreasons.benchmark.suites.reff import reff_table3
from rightreasons.benchmark.suites.reff_decoy_ham import reff_decoy_ham
from rightreasons.benchmark.suites.reff_regimes import WEIGHTS, reff_regimes
from rightreasons.explainers import resolution_layers
from rightreasons.models import create
from rightreasons.objectives.recipes import RECIPES


def test_every_method_has_candidates_and_a_recipe():
    assert set(reff.METHODS) == set(reff.GRIDS)
    for name, overrides in reff.METHODS.items():
        for candidate in reff.GRIDS[name]:
            settings = {**overrides.get("settings", {}), **candidate.get("settings", {})}
            weights = RECIPES.create(overrides["recipe"], **settings).weights
            assert (
                weights["counter_examples" if name == "counterexamples" else "cross_entropy"] == 1
            )


@pytest.mark.parametrize("name", ["baseline", "ABN"])
def test_heat_is_measured_at_the_layers_reff_finds(name):
    method = reff.METHODS[name]
    net = create(method["model"], classes=10, channels=3, size=32, **method["model_settings"])
    measured = method.get("metric_settings", reff.BASE["metric_settings"])["cam_mass"]["layer"]
    prefix = "features." if name == "ABN" else ""
    assert measured == [prefix + layer for layer in reff.LAYERS]
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


@pytest.fixture
def configs():
    """By variant and method."""
    found = list_lines(reff_regimes(), "small")
    return {(line.variant.name, line.method.name): line.cell(0, 0).config for line in found}


def test_the_first_column_has_runs_of_table_3(configs):
    offered = {
        line.method.name: [line.cell(number, 0).config for number in range(2)]
        for line in list_lines(reff_table3(), "small", variants=["p = 0"])
    }
    for method in ("baseline", *WEIGHTS):
        assert configs["as in Table 3", method] in offered[method]


def test_one_thing_is_changed_in_each_of_the_next(configs):
    for method in WEIGHTS:
        usual = configs["as in Table 3", method]
        assert configs["no ramp", method].settings == {"weight": WEIGHTS[method]}
        assert configs["no padding", method].settings == usual.settings
        assert configs["no padding", method].model_settings == {"padding": 0}
        assert usual.data_settings["background_classes"] == 37
        assert "background_classes" not in configs["ten background classes", method].data_settings
        assert configs["48 pixels", method].data_settings["size"] == 48


FOLDER = Path(os.environ.get("RIGHTREASONS_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.fixture(scope="module")
def cells():
    return plan(reff_decoy_ham(), "small", lambda config: None).cells


def test_both_nets_with_all_masks_and_with_twenty(cells):
    kinds = {
        (
            cell.config.model,
            cell.config.recipe,
            cell.config.strategy_settings.get("num_annotations"),
        )
        for cell in cells
    }
    for model in ("small_cnn", "efficientnet_lite0"):
        for recipe in ("r3", "reff"):
            assert {(model, recipe, None), (model, recipe, 20)} <= kinds
        assert {(model, recipe, None) for recipe in ("erm", "adv_r4")} <= kinds


def test_masks_on_one_class_are_met_with_the_margin(cells):
    for cell in cells:
        few = cell.config.strategy == "reff"
        if cell.config.recipe == "adv_r4" or (few and cell.config.recipe == "r3"):
            assert cell.config.settings["target"] == "margin"
    targets = {cell.config.settings.get("target") for cell in cells if cell.config.recipe == "r3"}
    assert targets == {None, "margin"}


def test_statistics_of_weights_from_imagenet_are_kept(cells):
    for cell in cells:
        assert cell.config.frozen_statistics == (cell.config.model == "efficientnet_lite0")


def test_methods_of_a_variant_differ_in_the_recipe_and_not_in_the_images(cells):
    for model in ("small_cnn", "efficientnet_lite0"):
        own = [cell.config for cell in cells if cell.config.model == model]
        images = {
            (c.data_settings["mask_fraction"], c.data_settings["mask_fraction_keep"]) for c in own
        }
        assert len(images) == 1
        assert {tuple(config.settings["class_weights"]) for config in own} == {(1.0, 4.0)}
        assert len({(config.epochs, config.batch_size) for config in own}) == 1


def test_settings_are_chosen_by_pasted_artefacts(cells):
    suite = reff_decoy_ham()
    assert suite.select_by == "swap_accuracy/worst"
    for cell in cells:
        assert "swap_accuracy" in cell.config.validation_metrics
        assert cell.config.metric_settings["swap_accuracy"]["source"] == "pasted"


def test_the_heat_map_of_efficientnet_is_three_by_three(cells):
    config = next(cell.config for cell in cells if cell.config.model == "efficientnet_lite0")
    net = create("efficientnet_lite0", classes=2, channels=3, size=48, width=1 / 16).eval()
    layer = config.metric_settings["cam_mass"]["layer"]
    x = net.normalise.mean.new_zeros(1, 3, 48, 48)
    assert layer in resolution_layers(net, x)
    found = []
    net.get_submodule(layer).register_forward_hook(lambda _, __, y: found.append(y.shape[2:]))
    net(x)
    assert found == [(3, 3)]


@pytest.mark.slow
def test_half_of_the_few_masks_have_something_in_them(cells):
    if not (FOLDER / "ham10000_128.npz").is_file():
        pytest.skip(f"no photographs of HAM10000 in {FOLDER}")
    config = next(c.config for c in cells if c.config.strategy == "reff")
    small = {**config.data_settings, "size": 8, "mask_fraction": 0.1}
    train = replace(config, data_dir=str(FOLDER), data_settings=small).load_data().train
    number = config.strategy_settings["num_annotations"]
    indices = draw_annotated(train.labels, find_annotated(train), number, seed=0)
    batch = train.take(indices)
    assert len(indices) == 2 * number == 40
    assert torch.equal(batch.mask.flatten(1).any(dim=1), batch.y == 0)
