from rightreasons.benchmark.cell import config_key
from rightreasons.benchmark.plan import list_lines, plan
from rightreasons.benchmark.suites import masktune as part
from rightreasons.benchmark.suites.masktune import (
    masktune_figure2,
    masktune_table1,
    masktune_table5,
    masktune_table6,
)
from rightreasons.benchmark.suites.masktune_selective import masktune_table4
from rightreasons.run.config import Config


def test_methods_by_name():
    assert [method.name for method in part.methods()] == list(part.METHODS)
    assert [method.name for method in part.methods("ERM")] == ["ERM"]


def test_what_all_runs_share_is_the_papers():
    config = Config(**part.BASE)
    assert (config.model, config.optimizer, config.lr, config.batch_size) == (
        "small_cnn",
        "sgd",
        0.01,
        128,
    )
    assert config.build_objective().weights["weight_decay"] == 5e-5


def test_budgets():
    budgets = part.budgets(epochs=4)
    assert budgets["small"].overrides == {"epochs": 4, "lr": 0.05}
    assert budgets["paper"].overrides["step_factor"] == 0.5
    assert budgets["small"].protocol[0].startswith("4 epochs of all images before fine-tuning")
    assert part.budgets(epochs=1)["small"].protocol[0].startswith("1 epoch of all images before")


def test_methods_differ_in_their_strategy_alone():
    suite = masktune_figure2()
    configs = {line.method.name: line.cell(0, 1).config for line in list_lines(suite, "small")}
    erm = configs.pop("ERM")
    assert erm.strategy == "once"
    for config in configs.values():
        changed = {"strategy": "once", "strategy_settings": {}}
        assert vars(config) | changed == vars(erm)


def test_every_method_can_be_built():
    suite = masktune_table1()
    for line in list_lines(suite, "small"):
        config = line.cell(0, 0).config
        config.build_objective()
        config.build_strategy()
        assert config.model == "small_cnn"


def test_the_net_fits_the_digits():
    suite = masktune_table1()
    (line,) = list_lines(suite, "small", variants=["decoy digits"], methods=["ERM"])
    config = line.cell(0, 0).config
    data = config.load_data()
    assert config.build_model(data)(data.val.batch.x[:2]).shape == (2, 10)


def test_each_method_is_measured_by_its_own_confidence_and_on_the_same_net():
    suite = masktune_table4()
    configs = {line.method.name: line.cell(0, 1).config for line in list_lines(suite, "small")}
    scores = {
        name: config.metric_settings.get("risk_coverage", {}).get("score", "softmax")
        for name, config in configs.items()
    }
    expected = {"SelectiveNet": "selection", "Deep Gamblers": "abstain", "MaskTune": "logit"}
    assert {name: score for name, score in scores.items() if score != "softmax"} == expected
    for name, config in configs.items():
        net = config.model_settings.get("backbone", config.model)
        assert net == "small_cnn", name
        assert config.data_settings == {"validation": 10_000, "flip": True}


def test_iterations():
    suite = masktune_table5()
    found = {line.method.name: line.cell(1, 3).config for line in list_lines(suite, "small")}
    assert found["1 iteration"].strategy_settings == {"k": 1.5}
    assert found["2 iterations, accumulative"].strategy_settings == {"iterations": 2, "k": 1.5}
    expected = {"iterations": 3, "accumulate": False, "k": 1.5}
    assert found["3 iterations"].strategy_settings == expected
    assert all(config.data_settings == {"squares": 2} for config in found.values())


def test_the_papers_cut_is_the_first_candidate_and_all_seeds_choose():
    suite = masktune_table5()
    line = list_lines(suite, "small", methods=["1 iteration"])[0]
    assert line.cell(0, 3).config.strategy_settings == {"k": 2.0}
    assert line.seeds_after_choice() == ()


def test_its_runs_are_among_those_of_figure_2():
    ours, theirs = (
        {config_key(cell.config) for cell in plan(suite, "small", lambda config: None).cells}
        for suite in (masktune_table6(), masktune_figure2())
    )
    assert len(ours) == 2 * 3
    assert ours < theirs
