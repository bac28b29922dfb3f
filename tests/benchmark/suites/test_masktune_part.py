from rightreasons.benchmark.suites import masktune as part
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
    assert budgets["paper"].overrides == {"epochs": 100}
    assert budgets["small"].protocol[0].startswith("4 epochs of all images before fine-tuning")
    assert part.budgets(epochs=1)["small"].protocol[0].startswith("1 epoch of all images before")
