import pytest

from rightreasons.benchmark.cell import config_key
from rightreasons.benchmark.plan import list_lines, plan
from rightreasons.benchmark.suites import r4
from rightreasons.benchmark.suites.r4_figures import (
    r4_corruption,
    r4_mask_fraction,
    r4_model_size,
    r4_weight_decay,
)
from rightreasons.benchmark.suites.r4_tables import decoy_mnist, r4_table1, r4_table2


def test_the_small_budget_is_what_the_figures_were_promised_for():
    suite = decoy_mnist()
    config = next(
        line.cell(2, 0).config
        for line in list_lines(suite, "small")
        if (line.variant.name, line.method.name) == ("ross", "R3")
    )
    assert (config.data, config.data_settings) == ("decoy_mnist", {"colours": "ross"})
    assert (config.recipe, config.settings) == ("r3", {"weight": 30.0})
    assert (config.model, config.model_settings) == ("mlp", {"hidden": [512]})
    assert (config.epochs, config.batch_size, config.lr) == (10, 250, 2e-3)
    assert (config.optimizer, config.scheduler) == ("adam", "cosine")


def test_the_oracle_differs_from_erm_in_its_data_alone():
    suite = decoy_mnist()
    for budget in ("small", "paper"):
        by_method = {
            (line.variant.name, line.method.name): line.cell(0, 1).config
            for line in list_lines(suite, budget)
        }
        for variant in ("ross", "faint"):
            erm, oracle = by_method[variant, "ERM"], by_method[variant, "oracle"]
            assert oracle.data_settings == {**erm.data_settings, "oracle": True}
            assert vars(oracle) | {"data_settings": erm.data_settings} == vars(erm)


@pytest.mark.parametrize("grids", [r4.MNIST_GRIDS, r4.DERM_GRIDS])
def test_every_method_has_as_many_distinct_candidates(grids):
    assert list(grids) == list(r4.METHODS)
    assert len({len(grid) for grid in grids.values()}) == 1
    for grid in grids.values():
        assert all(grid.count(candidate) == 1 for candidate in grid)


def test_methods_by_name():
    assert [method.name for method in r4.methods("R3", "oracle")] == ["R3", "oracle"]
    assert [method.name for method in r4.methods()] == list(r4.METHODS)
    assert r4.methods("R3")[0].grid == r4.MNIST_GRIDS["R3"]


def test_weights_are_scaled_and_nothing_else():
    scaled = r4.scale_weights(r4.MNIST_GRIDS, 0.2, ["Cert-R4"])
    assert list(scaled) == ["Cert-R4"]
    for new, old in zip(scaled["Cert-R4"], r4.MNIST_GRIDS["Cert-R4"], strict=True):
        assert new["settings"]["weight"] == pytest.approx(5 * old["settings"]["weight"])
        assert new["settings"].keys() == old["settings"].keys()


def test_data_are_reduced_beside_their_own_settings():
    assert r4.change_data(r4.FAINT, mask_fraction=0.2)["data_settings"] == {
        "colours": "faint",
        "mask_fraction": 0.2,
    }
    assert r4.FAINT["data_settings"] == {"colours": "faint"}


def test_budgets_know_the_variants_on_derm():
    budgets = r4.budgets(["b"], derm=["a"])
    assert set(budgets) == {"small", "paper"}
    assert all(set(budget.variants) == {"a"} for budget in budgets.values())
    assert set(budgets["paper"].grids) == {"a", "b"}
    assert r4.budgets([], seeds=(5,))["small"].seeds == (5,)


def test_ratios_are_those_of_the_two_other_tables():
    for block in r4_table2().figures.values.values():
        for row in block.values():
            masked, core = (
                row["masked fragility, largest"].mean,
                row["core fragility, largest"].mean,
            )
            assert row["masked / core"].mean == pytest.approx(masked / core, abs=6e-4)


def test_candidates_are_those_of_table_1():
    keys = [
        [config_key(cell.config) for cell in plan(suite, "small", lambda config: None).cells]
        for suite in (r4_table1(), r4_table2())
    ]
    assert keys[0] == keys[1]


def configs(suite, variant, method):
    (line,) = list_lines(suite, "small", variants=[variant], methods=[method])
    return [cell.config for cell in line.possible_cells()]


def test_fewer_masks_weigh_more():
    suite = r4_mask_fraction()
    whole = configs(suite, "mnist 100 %", "Cert-R4")
    few = configs(suite, "mnist masks 20 %", "Cert-R4")
    for one, other in zip(whole, few, strict=True):
        assert other.settings["weight"] == pytest.approx(5 * one.settings["weight"])
        assert other.data_settings == {"colours": "faint", "mask_fraction": 0.2}


def test_fewer_data_do_not():
    suite = r4_mask_fraction()
    whole, few = configs(suite, "derm 100 %", "R3"), configs(suite, "derm data 20 %", "R3")
    assert [config.settings for config in few] == [config.settings for config in whole]
    assert few[0].data_settings["mask_fraction_keep"] == "data"
    assert few[0].batch_size == whole[0].batch_size == 64


def test_masks_are_corrupted_and_nothing_else():
    suite = r4_corruption()
    wanted = {"variants": ["right", "shift"], "methods": ["R3"]}
    right, wrong = list_lines(suite, "small", **wanted)
    one, other = right.cell(0, 0).config, wrong.cell(0, 0).config
    assert other.data_settings == {"colours": "faint", "mask_corruption": "shift"}
    assert vars(other) | {"data_settings": one.data_settings} == vars(one)


def test_curves_have_the_public_codes_points():
    suite = r4_corruption()
    for kind in ("misposition", "shift", "shrink", "dilation"):
        for share in (0.8, 0.6, 0.4, 0.2):
            name = f"{kind} {100 * share:.0f} %"
            (line,) = list_lines(suite, "small", variants=[name], methods=["Cert-R4"])
            assert line.cell(0, 0).config.data_settings["mask_correct"] == share
            assert suite.figures.values[name]["Cert-R4"]["worst group"].mean > 0
    worst = [
        suite.figures.values[f"misposition {n} %"]["Cert-R4"]["worst group"].mean for n in (80, 20)
    ]
    assert worst == [0.9403, 0.9185]
    ends = [
        suite.figures.values[kind]["Cert-R4"]["worst group"].mean
        for kind in ("misposition", "shrink", "shift", "dilation")
    ]
    assert [round(100 * value, 1) for value in ends] == [20.3, 36.3, 41.2, 0.0]


def test_cert_r4_on_skin_begins_without_a_box_and_is_chosen_by_the_worst_class():
    (line,) = list_lines(r4_table1(), "small", variants=["derm"], methods=["Cert-R4"])
    assert line.suite.key_of(line.variant) == "swap_accuracy/worst"
    assert line.variant.seeds_of_choice == len(line.budget.seeds) == 3
    for cell in line.possible_cells():
        ramp = {name: cell.config.settings[name] for name in ("ramp_start", "ramp", "ramp_shape")}
        assert ramp == {"ramp_start": 0.25, "ramp": 0.85, "ramp_shape": "geometric"}
    starts = [cell.config.model_settings["initialisation"] for cell in line.possible_cells()]
    assert starts == ["interval", "usual"]


def test_decay_and_masks_vary():
    suite = r4_weight_decay()
    (line,) = list_lines(suite, "small", variants=["20 %, decay 0.01"], methods=["R3"])
    config = line.cell(0, 0).config
    assert config.settings == {"weight_decay": 0.01, "weight": 500.0}
    assert config.data_settings == {"colours": "faint", "mask_fraction": 0.2}


def test_nets_grow():
    suite = r4_model_size()
    found = {line.variant.name: line.cell(0, 0).config for line in list_lines(suite, "small")}
    assert found["mnist 3 layers"].model_settings == {"hidden": [512, 512, 512]}
    assert found["derm 2 convolutions"].model_settings == {"width": 0.5, "depth": 2}
    assert found["derm 4 convolutions"].model_settings == {"width": 0.5}  # as in Table 1
