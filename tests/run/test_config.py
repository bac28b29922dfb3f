import math
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
import yaml

import rightreasons as rr
from rightreasons.run.config import Config, load_config, save_config


def test_survives_a_round_trip(tmp_path):
    config = Config(
        data="decoy_digits", settings={"weight": "auto"}, metrics=["accuracy"], clip=1.0
    )
    save_config(tmp_path, config)
    assert load_config(tmp_path) == config
    assert yaml.safe_load((tmp_path / "config.yaml").read_text()) == asdict(config)


def test_what_is_left_open_is_chosen_by_the_data():
    digits = Config(data="decoy_digits", seed=3)
    data = digits.load_data()
    chosen = digits.for_data(data)
    assert (chosen.model, chosen.model_settings) == ("small_cnn", {"padding": 1})
    assert chosen.for_data(data) == chosen
    assert chosen.epochs * math.ceil(len(data.train) / chosen.batch_size) >= 1000
    given = replace(digits, model="lenet", batch_size=7, epochs=2)
    assert given.for_data(data) == given


def test_settings_of_metrics_need_no_list_of_names():
    config = Config(data="decoy_digits", metric_settings={"swap_accuracy": {"num_draws": 2}})
    data = config.load_data().test
    metrics = {metric.name: metric for metric in config.build_metrics("test", data)}
    assert set(metrics) == {metric.name for metric in rr.metrics.suitable(data)}
    assert metrics["swap_accuracy"].num_draws == 2


def test_builds_what_it_says():
    config = Config(
        data="decoy-digits",
        data_settings={"patch": 2},
        recipe="r3",
        settings={"weight": 3.0},
        model="lenet",
        frozen_statistics=True,
        max_rows=64,
    )
    data = config.load_data()
    assert data.train.take(torch.tensor([0])).mask.sum() == 4
    objective = config.build_objective()
    assert objective.weights == {"cross_entropy": 1.0, "r3": 3.0}
    assert (objective.frozen_statistics, objective.max_rows) == (True, 64)
    assert config.build_model(data)(data.test.take(torch.arange(2)).x).shape == (2, 10)


def test_the_seed_is_that_of_data_and_weights_and_leaves_no_trace():
    config = Config(data="decoy_digits", seed=3)
    assert config.load_data().digest() == rr.datasets.decoy_digits(seed=3).digest()
    data = config.load_data()
    before = torch.get_rng_state()
    first, second = config.build_model(data), config.build_model(data)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first[1].weight, second[1].weight)


def test_the_data_may_have_a_seed_of_their_own():
    config = Config(data="decoy_digits", seed=3, data_settings={"seed": 5})
    assert config.load_data().digest() == rr.datasets.decoy_digits(seed=5).digest()
    with pytest.raises(TypeError):
        Config("decoy_digits")


def test_values_are_those_its_file_will_have(tmp_path):
    config = Config(
        data="decoy_digits",
        data_dir=tmp_path,
        lr=np.float64(0.1),
        settings={"target": rr.Target.LOGIT},
        model="mlp",
        model_settings={"hidden": (8, 8)},
    )
    save_config(tmp_path, config)
    assert load_config(tmp_path) == config
    assert config.settings == {"target": "logit"}


def test_metrics_of_each_split():
    config = Config(
        data="decoy_digits",
        metrics=["accuracy", "rps"],
        validation_metrics=["accuracy"],
        metric_settings={"rps": {"num_draws": 2, "max_samples": 5}},
    )
    rps = config.build_metrics()[1]
    assert (rps.num_draws, rps.max_samples) == (2, 5)
    assert [metric.name for metric in config.build_metrics("validation")] == ["accuracy"]
    assert Config(data="decoy_digits").build_metrics("validation") is None


def test_the_strategy_and_its_settings():
    config = Config(data="decoy_digits", strategy="masktune", strategy_settings={"k": 3.0})
    assert config.build_strategy().k == 3.0
    assert isinstance(Config(data="decoy_digits").build_strategy(), rr.strategies.Once)
    with pytest.raises(rr.errors.InvalidSettingError, match="but got tau"):
        Config(data="decoy_digits", strategy="jtt", strategy_settings={"tau": 1}).build_strategy()
