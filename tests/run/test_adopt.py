from dataclasses import replace

import pytest
import torch

import rightreasons as rr
from rightreasons.datasets import Card, InMemory
from rightreasons.datasets.dataset import Splits
from rightreasons.errors import (
    CheckpointMismatchError,
    InvalidSettingError,
    OutputError,
)
from rightreasons.report import write_report
from rightreasons.run import Config, adopt_run, certify_run, evaluate_run, train_run
from rightreasons.run.config import AS_IT_IS

CODE = """
from torch import nn

def make(classes, channels, size):
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size[0] * size[1], classes))

def one_logit(channels, size):
    return make(1, channels, size)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A configuration of a model and weights beside the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(CODE)
    torch.save(
        {"state_dict": {"module.1.weight": torch.randn(10, 196), "module.1.bias": torch.zeros(10)}},
        "w.pt",
    )
    return Config(
        data="decoy_digits",
        recipe=AS_IT_IS,
        model="net.py:make",
        weights="w.pt",
        metrics=["accuracy", "input_gradient_mass"],
        model_settings={"mean": [0.5], "deviation": [0.25]},
    )


def test_a_model_as_it_is_becomes_a_run_that_holds_in_every_folder(own, tmp_path, monkeypatch):
    results = adopt_run(own, "runs/mine")
    weight = rr.run.load_run("runs/mine").model.net[1].weight
    assert torch.equal(weight, torch.load("w.pt")["state_dict"]["module.1.weight"])
    assert (results["recipe"], results["model"]) == ("as it is", "net.py:make")
    assert results["weights"]["file"] == "w.pt"
    assert "the most frequent class would be" in results["diagnosis"]["message"]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "w.pt").unlink()  # the run keeps the weights
    again = evaluate_run("../runs/mine", ["accuracy"])
    assert again["metrics"]["test"]["accuracy"] == results["metrics"]["test"]["accuracy"]
    assert certify_run("../runs/mine", epsilon=0.01).summary["counts"]["verified"] > 0


def test_a_shortcut_that_breaks_at_test_is_no_sign_that_nothing_was_learned(own):
    y = torch.arange(60) % 10
    x = torch.zeros(60, 1, 14, 14)
    x.flatten(1)[torch.arange(60), y] = 1
    weight = torch.eye(10, 196)
    torch.save({"module.1.weight": weight, "module.1.bias": torch.zeros(10)}, "w.pt")
    own = replace(own, metrics=["accuracy"])
    right, wrong = (InMemory(rr.Batch(x=x, y=labels)) for labels in (y, (y + 1) % 10))
    told = adopt_run(own, "runs/a", data=Splits(right, right, wrong))["diagnosis"]
    assert told["learned"] and "On validation data it is 100.0 % right" in told["message"]
    told = adopt_run(own, "runs/b", data=Splits(right, wrong, wrong))["diagnosis"]
    assert not told["learned"] and "Check the order of its outputs" in told["message"]


def test_it_stands_beside_a_run_that_begins_with_its_weights(own, tmp_path):
    adopt_run(own, "runs/mine")
    tuned = {"recipe": "r3", "epochs": 1, "lr": 1e-9}
    config = Config(**{**vars(own), **tuned})
    results = train_run(config, "runs/r3", progress=False)
    assert results["weights"]["sha256"] == rr.run.load_run("runs/mine").results["weights"]["sha256"]
    weights = [rr.run.load_run(f"runs/{name}").model.net[1].weight for name in ("mine", "r3")]
    torch.testing.assert_close(*weights)
    page = write_report(["runs/r3", "runs/mine"], tmp_path / "report.html").read_text()
    assert "The model as it was given; nothing was trained." in page
    assert "differ in more than their recipe" not in page


def test_what_would_not_be_the_users_model_is_refused(own, tmp_path):
    with pytest.raises(InvalidSettingError, match="its weights would be random. Name a file"):
        adopt_run(Config(data="decoy_digits", recipe=AS_IT_IS, model="mlp"), "runs/a")
    with pytest.raises(InvalidSettingError, match="`recipe` to be 'as it is'.*Use train_run"):
        adopt_run(Config(**{**vars(own), "recipe": "erm"}), "runs/a")
    with pytest.raises(InvalidSettingError, match="but 2 are random, such as"):
        adopt_run(Config(**{**vars(own), "weights": None}), "runs/a")
    torch.save({"1.weight": torch.randn(3, 196), "1.bias": torch.zeros(3)}, "w.pt")
    with pytest.raises(CheckpointMismatchError, match="number of classes: 1.weight, 1.bias"):
        adopt_run(own, "runs/a")
    torch.save({"1.weight": torch.randn(10, 196), "1.bias": torch.zeros(10)}, "w.pt")
    adopt_run(own, "runs/a")
    with pytest.raises(OutputError, match="folder without a run"):
        adopt_run(own, "runs/a")


def splits(classes):
    torch.manual_seed(0)
    x, y = torch.rand(40, 1, 4, 4), torch.arange(40) % 2
    card = Card(name="pair", classes=classes, valid_range=(0.0, 1.0))
    data = InMemory(rr.Batch(x=x, y=y), card)
    return Splits(train=data, val=None, test=data)


def test_the_class_of_a_single_logit_is_named(own, monkeypatch):
    monkeypatch.setattr(Config, "load_data", lambda self: splits(("cat", "dog")))
    torch.save({"1.weight": torch.randn(1, 16), "1.bias": torch.zeros(1)}, "w.pt")
    base = {**vars(own), "model": "net.py:one_logit", "metrics": ["accuracy"], "model_settings": {}}
    with pytest.raises(InvalidSettingError, match="--set-model positive=dog"):
        adopt_run(Config(**base), "runs/a")
    shares = [
        adopt_run(Config(**{**base, "model_settings": {"positive": name}}), f"runs/{name}")
        for name in ("cat", "dog")
    ]
    cat, dog = (one["metrics"]["test"]["accuracy"] for one in shares)
    assert cat == pytest.approx(1 - dog)
    with pytest.raises(InvalidSettingError, match="one of two classes, cat or dog, but got 'cow'"):
        adopt_run(Config(**{**base, "model_settings": {"positive": "cow"}}), "runs/b")


def test_classes_in_another_order_are_refused(own, monkeypatch):
    monkeypatch.setattr(Config, "load_data", lambda self: splits(("cat", "dog")))
    torch.save({"1.weight": torch.randn(2, 16), "1.bias": torch.zeros(2)}, "w.pt")
    adopt_run(Config(**{**vars(own), "metrics": ["accuracy"]}), "runs/a")
    monkeypatch.setattr(Config, "load_data", lambda self: splits(("a dog", "cat")))
    with pytest.raises(CheckpointMismatchError, match="cat, dog, in this order, but .* a dog, cat"):
        evaluate_run("runs/a")


def test_data_paths_are_whole(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rr.run.config.save_config(tmp_path, Config(data="folder", data_dir="images"))
    assert rr.run.load_config(tmp_path).data_dir == str(tmp_path / "images")
