import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rightreasons.annotators import annotated_by_hand, few_places
from rightreasons.benchmark.plan import plan
from rightreasons.benchmark.suites.reff_decoy_ham import reff_decoy_ham
from rightreasons.explainers import resolution_layers
from rightreasons.models import create

FOLDER = Path(os.environ.get("RIGHTREASONS_DATA", Path(__file__).parents[4] / "shared" / "data"))


@pytest.fixture(scope="module")
def cells():
    return plan(reff_decoy_ham(), "small", lambda config: None).cells


def test_its_size(cells):
    planned = plan(reff_decoy_ham(), "small", lambda config: None)
    assert len(cells) == 2 * 8 * 2
    assert len(cells) + planned.num_unknown == 2 * 8 * (2 + 2)


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


def test_half_of_the_few_masks_have_something_in_them(cells):
    if not (FOLDER / "ham10000_128.npz").is_file():
        pytest.skip(f"no photographs of HAM10000 in {FOLDER}")
    config = next(c.config for c in cells if c.config.strategy == "reff")
    small = {**config.data_settings, "size": 8, "mask_fraction": 0.1}
    train = replace(config, data_dir=str(FOLDER), data_settings=small).load_data().train
    number = config.strategy_settings["num_annotations"]
    places = few_places(train.labels, annotated_by_hand(train), number, seed=0)
    batch = train.take(places)
    assert len(places) == 2 * number == 40
    assert torch.equal(batch.mask.flatten(1).any(dim=1), batch.y == 0)
