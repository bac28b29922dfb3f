from rightreasons.benchmark.plan import list_lines
from rightreasons.benchmark.suites.density_figures import WEIGHTS, density_figure4, density_groups
from rightreasons.benchmark.suites.density_tables import (
    SEEDS,
    SETTINGS,
    SHOWN,
    density_table1,
    density_unseen,
)


def test_density_and_input_gradient_differ_in_the_penalty_alone():
    suite = density_table1()
    cells = {line.method.name: line.cell(1, 0).config for line in list_lines(suite, "small")}
    density, other = cells["Density (log-sum-exp)"], cells["InputGrad"]
    assert density.settings == {"form": "logsumexp", "weight": 0.5}
    assert other.settings == {"weight": 0.5}
    assert cells["InputGrad (loss)"].settings == {"target": "loss", "weight": 2.0}
    same = vars(density) | {"recipe": other.recipe, "settings": other.settings}
    assert same == vars(other)


def test_every_column_is_what_a_run_measures():
    suite = density_table1()
    config = next(iter(list_lines(suite, "small"))).cell(0, 0).config
    assert [metric.name for metric in config.build_metrics("validation")] == [
        "accuracy",
        "feature_leakage",
    ]
    attacked = config.build_metrics()[-1]
    keys = {
        f"adversarial_accuracy/{norm}/{epsilon}{step}"
        for norm in attacked.norm
        for epsilon in attacked.epsilons
        for step in ("", "/0.01")
    }
    assert attacked.step_size == [0.01, None]
    assert {one.key for one in suite.measures if one.metric == "adversarial_accuracy"} == keys


def test_smooth_nets_are_asked_for():
    suite = density_table1()
    smooth = {
        line.method.name
        for line in list_lines(suite, "paper")
        if line.cell(0, 0).config.model_settings.get("activation") == "softplus"
    }
    assert smooth == {"SoftPlus", "Hessian"}


def test_its_seeds_are_in_no_other_table():
    suite = density_unseen()
    assert not set(SEEDS) & set(density_table1().budgets["small"].seeds)
    assert all(budget.seeds == SEEDS for budget in suite.budgets.values())


def test_its_settings_are_candidates_of_table_1_or_one_step_up():
    suite = density_unseen()
    offered = {
        line.method.name: [line.cell(number, 3).config for number in range(line.num_candidates)]
        for line in list_lines(density_table1(), "small")
    }
    at = {
        (line.variant.name, line.method.name): line.cell(0, 3).config
        for line in list_lines(suite, "small")
    }
    for method in SETTINGS["floor of 94 %"]:
        assert at["floor of 94 %", method] in offered[method]
    assert at["floor of 93 %", "ST"] == at["floor of 94 %", "ST"]


def test_standard_training_runs_once_a_seed():
    suite = density_unseen()
    runs = {
        repr(line.cell(0, seed).config) for line in list_lines(suite, "small") for seed in SEEDS
    }
    assert len(runs) == (1 + 2 * 3) * len(SEEDS)


def test_every_measure_is_one_of_table_1():
    suite = density_unseen()
    assert [measure.name for measure in suite.measures] == list(SHOWN)


def test_every_penalty_grows_from_step_to_step():
    suite = density_figure4()
    for name, weights in WEIGHTS.items():
        found = [
            line.cell(0, 0).config.settings["weight"]
            for line in list_lines(suite, "small")
            if line.method.name == name
        ]
        assert found == list(weights) == sorted(set(weights))


def test_runs_are_shared_with_table_1():
    suite = density_figure4()
    swept = [line.cell(0, 0).config for line in list_lines(suite, "small")]
    for line in list_lines(density_table1(), "small"):
        if line.method.name in WEIGHTS:
            assert all(line.cell(number, 0).config in swept for number in range(3))


def test_the_sum_has_both_parts():
    suite = density_groups()
    cells = {line.method.name: line.cell(1, 0).config for line in list_lines(suite, "small")}
    names = {name: list(config.build_objective().terms) for name, config in cells.items()}
    assert names["group DRO + Density"] == [*names["group DRO"], names["Density"][1]]


def test_groups_that_the_shortcut_misleads_are_in_training():
    suite = density_groups()
    config = next(iter(list_lines(suite, "small"))).cell(0, 0).config
    assert config.data_settings["share"] == 0.95
