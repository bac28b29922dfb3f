import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml
from torch import nn

import rightreasons as rr
from rightreasons.errors import (
    CheckpointMismatchError,
    InvalidSettingError,
    OutputError,
    RunNotFoundError,
    UnknownNameError,
)
from rightreasons.run import run as runs
from rightreasons.run.config import Config, load_config
from rightreasons.run.examples import write_examples
from rightreasons.run.run import certify_run, evaluate_run, load_run, train_run

CONFIG = Config(
    data="decoy-digits",
    recipe="r3",
    settings={"weight": 10.0},
    model="mlp",
    model_settings={"hidden": [16]},
    epochs=2,
    batch_size=100,
    accelerator="cpu",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    train_run(CONFIG, folder)
    return folder


def test_the_folder_holds_what_others_can_read(run):
    names = {path.name for path in run.iterdir()}
    assert names == {
        "checkpoint.pt",
        "config.yaml",
        "examples.npz",
        "log.jsonl",
        "model.safetensors",
        "results.json",
    }
    assert len((run / "log.jsonl").read_text().splitlines()) == 2
    assert yaml.safe_load((run / "config.yaml").read_text())["settings"] == {"weight": 10.0}


def test_results_have_the_documented_keys(run):
    results = json.loads((run / "results.json").read_text())
    assert results["data"] == "decoy_digits"
    assert (results["recipe"], results["settings"], results["seed"]) == ("r3", {"weight": 10.0}, 0)
    assert results["terms"] == {"cross_entropy": 1.0, "r3": 10.0}
    assert results["selection"] == {"used": "none", "epoch": 2}
    assert results["seconds"] > 0
    assert results["data_sha256"] == rr.datasets.decoy_digits(seed=0).digest()
    assert set(results["versions"]) == {"rightreasons", "torch", "numpy", "python"}
    assert results["threads"] == torch.get_num_threads()
    assert {"accuracy", "group_accuracy/average", "group_accuracy/worst"} <= set(
        results["metrics"]["test"]
    )
    assert "swap_accuracy" in results["metrics"]["validation"]


def test_examples_show_every_class_with_its_gradient(run):
    examples = np.load(run / "examples.npz")
    assert examples["x"].shape == examples["attribution"].shape == (12, 1, 14, 14)
    assert set(examples["y"].tolist()) == set(range(10))
    data = rr.datasets.decoy_digits(seed=0)
    model = load_run(run).load_model(data)
    x = torch.tensor(examples["x"]).requires_grad_()
    logits = model(x)
    assert logits.argmax(dim=1).tolist() == examples["prediction"].tolist()
    (gradient,) = torch.autograd.grad(logits.max(dim=1).values.sum(), x)
    np.testing.assert_allclose(examples["attribution"], gradient.numpy(), rtol=1e-5, atol=1e-7)


def test_examples_show_the_counterfactual(run):
    examples = np.load(run / "examples.npz")
    model = load_run(run).load_model(rr.datasets.decoy_digits(seed=0))
    differs = examples["swapped"] != examples["x"]
    assert not differs[np.broadcast_to(examples["mask"], differs.shape) == 0].any()
    assert examples["changed"].tolist() == differs.any(axis=(1, 2, 3)).tolist()
    assert examples["changed"].all()
    logits = model(torch.tensor(examples["swapped"]))
    assert logits.argmax(dim=1).tolist() == examples["swapped_prediction"].tolist()


def test_evaluating_again_gives_the_same_numbers(run):
    again = evaluate_run(run, ["accuracy", "group_accuracy"])
    saved = load_run(run).results["metrics"]["test"]
    assert again["metrics"]["test"].items() <= saved.items()
    assert set(again["metrics"]["test"]) < set(saved)


def test_the_same_seed_gives_the_same_weights(run, tmp_path):
    train_run(CONFIG, tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()


def test_resuming_a_finished_run_repeats_its_results(run):
    before = json.loads((run / "results.json").read_text())
    assert train_run(load_config(run), run, resume=True)["metrics"] == before["metrics"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_settings": {"hidden": [8]}}, "model_settings .*16.*, now .*8"),
        ({"settings": {"weight": 20.0}}, "settings .*10.0.*, now .*20.0"),
        ({"optimizer": "sgd", "seed": 1}, "optimizer 'adam', now 'sgd'; seed 0, now 1"),
    ],
)
def test_a_run_is_resumed_as_it_was_begun(run, changes, words):
    with pytest.raises(CheckpointMismatchError, match=words):
        train_run(replace(CONFIG, **changes), run, resume=True)
    assert load_config(run) == CONFIG


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"recipe": "r33"}, UnknownNameError, "Did you mean 'r3'"),
        ({"data": "decoy_digit"}, UnknownNameError, "Did you mean 'decoy_digits'"),
        ({"model": "mpl"}, UnknownNameError, "Did you mean 'mlp'"),
        ({"strategy": "jt"}, UnknownNameError, "Did you mean 'jtt'"),
        ({"metrics": ["accurac"]}, UnknownNameError, "Did you mean 'accuracy'"),
        ({"settings": {"wieght": 1}}, InvalidSettingError, "but got wieght"),
        ({"data": "decoy_mnist"}, rr.errors.DatasetNotFoundError, "--data-dir"),
        (
            {"data": "decoy_mnist", "data_dir": "/nowhere"},
            rr.errors.DatasetNotFoundError,
            "nowhere",
        ),
    ],
)
def test_mistakes_are_found_before_training(changes, error, words, tmp_path):
    with pytest.raises(error, match=words):
        train_run(replace(CONFIG, **changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_failed_attempt_leaves_no_config_behind_for_the_next(tmp_path):
    with pytest.raises(InvalidSettingError, match="Expected `lr` above 0"):
        train_run(replace(CONFIG, lr=-1.0), tmp_path)
    train_run(CONFIG, tmp_path)
    assert load_config(tmp_path) == CONFIG


def test_evaluating_on_other_data_says_so(run, tmp_path, caplog):
    other = tmp_path / "run"
    shutil.copytree(run, other)
    text = (other / "config.yaml").read_text()
    (other / "config.yaml").write_text(text.replace("seed: 0", "seed: 1"))
    again = evaluate_run(other, ["accuracy"])
    assert "The data are not those the run was trained and measured on" in caplog.text
    assert again["data_sha256"] == rr.datasets.decoy_digits(seed=1).digest()


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written.*Choose another with --out"):
        train_run(CONFIG, tmp_path / "file" / "run")


def test_a_folder_without_a_run(tmp_path):
    with pytest.raises(RunNotFoundError, match="it has no config.yaml"):
        load_run(tmp_path)
    (tmp_path / "config.yaml").write_text("data: decoy_digits\n")
    with pytest.raises(RunNotFoundError, match="no results.json. Finish it with"):
        load_run(tmp_path)
    (tmp_path / "results.json").write_text("{")
    with pytest.raises(RunNotFoundError, match="results.json as rightreasons wrote it"):
        load_run(tmp_path)


@pytest.mark.parametrize("text", ["data: [", "just words", "epochs: 3"])
def test_a_broken_config(tmp_path, text):
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(RunNotFoundError, match="config.yaml as rightreasons wrote it"):
        load_config(tmp_path)


def test_an_unknown_key_in_the_config(tmp_path):
    (tmp_path / "config.yaml").write_text("data: decoy_digits\nepoch: 3\n")
    with pytest.raises(InvalidSettingError, match="but got epoch"):
        load_config(tmp_path)


def test_batch_norm_and_selection_run_end_to_end(tmp_path):
    config = replace(
        CONFIG, model="lenet", model_settings={}, epochs=1, select="swap_accuracy", recipe="erm"
    )
    config = replace(config, settings={}, metrics=["accuracy"], frozen_statistics=True)
    results = train_run(config, tmp_path)
    assert results["selection"]["used"] == "swap_accuracy"
    assert set(results["metrics"]["test"]) == {
        "accuracy",
        "accuracy/low",
        "accuracy/high",
        "accuracy/n",
    }


def test_certifying_writes_what_it_gives(run, tmp_path):
    other = tmp_path / "run"
    shutil.copytree(run, other)
    certificate = certify_run(other, epsilon=0.1, method="ibp", num_steps=2)
    assert rr.Certificate.from_json(other / "certificate.json").samples == certificate.samples
    data = rr.datasets.decoy_digits(seed=0)
    model = load_run(other).load_model(data)
    expected = rr.certify(model, data.test, epsilon=0.1, method="ibp", num_steps=2)
    assert certificate.samples == expected.samples
    assert certificate.model_sha256 == expected.model_sha256
    assert certificate.data_sha256 == data.test.digest()
    assert certificate.settings == {**expected.settings, "split": "test"}


def test_certifying_on_validation_data_elsewhere(run, tmp_path):
    path = tmp_path / "new" / "proof.json"
    settings = {"epsilon": None, "method": "ibp", "num_steps": 0}
    certificate = certify_run(run, split="validation", out=path, **settings)
    assert len(certificate.samples) == len(rr.datasets.decoy_digits(seed=0).val)
    assert path.exists()
    assert not (run / "certificate.json").exists()


def test_certifying_without_validation_data(run, tmp_path):
    other = tmp_path / "run"
    shutil.copytree(run, other)
    text = (other / "config.yaml").read_text()
    settings = "data_settings:\n  validation: 0\n"
    (other / "config.yaml").write_text(text.replace("data_settings: {}\n", settings))
    with pytest.raises(InvalidSettingError, match="Expected a run with validation data to certify"):
        certify_run(other, epsilon=None, split="validation")


def test_an_interrupted_certificate_is_not_written(run, tmp_path, monkeypatch):
    def interrupted(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "certify", interrupted)
    with pytest.raises(KeyboardInterrupt):
        certify_run(run, epsilon=None, out=tmp_path / "proof.json")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    """A run of two fits, measured on one more test set."""
    folder = tmp_path_factory.mktemp("staged")
    config = replace(
        CONFIG,
        recipe="erm",
        settings={},
        metrics=["accuracy"],
        strategy="random-mask",
        strategy_settings={"window": 3},
    )
    data = config.load_data()
    return folder, config, train_run(config, folder, data=replace(data, more_tests={"v": data.val}))


def test_a_strategy_of_several_fits(staged):
    folder, config, results = staged
    assert {path.name for path in folder.iterdir()} == {
        "config.yaml",
        "examples.npz",
        "log.jsonl",
        "model.safetensors",
        "results.json",
        "stage-1-train",
        "stage-2-masks.npy",
        "stage-2-tune",
    }
    assert (results["strategy"], results["strategy_settings"]) == ("random_mask", {"window": 3})
    assert [(one["name"], one["epochs"]) for one in results["stages"]] == [
        ("train", 2),
        ("tune", 1),
    ]
    model = load_run(folder).load_model(config.load_data())
    accuracy = rr.evaluate(model, config.load_data().test, ["accuracy"])["accuracy"]
    assert accuracy == results["metrics"]["test"]["accuracy"]


def test_every_test_set_is_measured(staged):
    measured = staged[2]["metrics"]
    assert measured["v"] == measured["validation"]


def test_a_staged_run_is_resumed_as_it_was_begun(staged):
    folder, config, results = staged
    again = train_run(config, folder, resume=True)
    assert again["metrics"]["test"] == results["metrics"]["test"]
    with pytest.raises(CheckpointMismatchError, match="strategy 'random-mask', now 'once'"):
        train_run(replace(config, strategy="once", strategy_settings={}), folder, resume=True)
    with pytest.raises(OutputError, match="Expected a folder without a run"):
        train_run(config, folder)


def test_results_of_one_fit_say_nothing_of_strategies(run):
    results = json.loads((run / "results.json").read_text())
    assert not {"strategy", "strategy_settings", "stages"} & set(results)


def test_data_without_masks_give_no_mask(tmp_path):
    data = rr.datasets.InMemory(rr.Batch(x=torch.rand(5, 3), y=torch.tensor([0, 1, 0, 1, 1])))
    model = nn.Linear(3, 2)
    write_examples(tmp_path / "examples.npz", model, data)
    examples = np.load(tmp_path / "examples.npz")
    assert set(examples) == {"x", "y", "index", "prediction", "probability", "attribution"}
    assert examples["y"].tolist() == [0, 0, 1, 1, 1]
    rows = model.weight.detach().numpy()[examples["prediction"]]
    np.testing.assert_allclose(examples["attribution"], rows, rtol=1e-6)
    assert model.weight.grad is None


@pytest.mark.parametrize("strategy", ["once", "divdis"])
def test_a_model_in_bfloat16_has_a_whole_run(strategy, tmp_path):
    short = replace(CONFIG, recipe="erm", settings={}, epochs=1, strategy=strategy)
    results = train_run(replace(short, precision="bf16-true"), tmp_path)
    assert 0 <= results["metrics"]["test"]["accuracy"] <= 1
    assert np.load(tmp_path / "examples.npz")["x"].dtype == np.float32
