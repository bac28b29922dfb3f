import json

import pytest
import torch
from typer.testing import CliRunner

from rightreasons.cli import app
from rightreasons.core.files import load_weights_into
from rightreasons.errors import InvalidSettingError
from rightreasons.metrics import RiskCoverage
from rightreasons.models.selective import AbstainingPair
from rightreasons.run.config import Config
from rightreasons.run.run import load_run, train_run
from rightreasons.run.selective import selective_run
from rightreasons.training.evaluate import evaluate

SMALL = {"backbone": "mlp", "backbone_settings": {"hidden": [8]}}
CONFIGS = {
    "softmax": {"recipe": "one_sided", "model": "mlp", "model_settings": {"hidden": [8]}},
    "abstain": {"recipe": "deep_gamblers", "model": "abstaining", "model_settings": SMALL},
    "selection": {
        "recipe": "selective_net",
        "model": "selective_net",
        "model_settings": {**SMALL, "hidden": 8},
    },
}


@pytest.fixture(scope="module", params=CONFIGS)
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("selective") / request.param
    config = Config(data="decoy_digits", epochs=2, metrics=["accuracy"], **CONFIGS[request.param])
    train_run(config, folder, progress=False)
    return folder


def test_thresholds_are_those_of_validation_data(run):
    found = selective_run(run)
    assert found["score"] == run.name and not found["pair"]
    done = load_run(run)
    data = done.config.load_data()
    model = done.load_model(data)
    own = RiskCoverage(score=run.name)
    validation = evaluate(model, data.val, [own])
    assert found["validation"] == validation
    assert [line["coverage"] for line in found["lines"]] == [1.0, 0.95, 0.9, 0.85, 0.8]
    assert found["lines"][0]["threshold"] is None
    assert found["lines"][0]["realised"] == 1
    for line in found["lines"][1:]:
        label = f"{100 * line['coverage']:g}"
        assert line["threshold"] == validation[f"risk_coverage/threshold/{label}"]
        assert line["realised"] == found["test"][f"risk_coverage/realised/{label}/coverage"]
        assert 0 <= line["error"] <= line["worst_group"] <= 1
    accuracy = done.results["metrics"]["test"]["accuracy"]
    assert found["lines"][0]["error"] == pytest.approx(1 - accuracy)


def test_settings(run):
    found = selective_run(run, score="softmax", coverages=[0.5], max_samples=50)
    assert found["score"] == "softmax"
    assert len(found["lines"]) == 1
    assert (50 * found["lines"][0]["realised"]) % 1 == pytest.approx(0)


@pytest.mark.parametrize("settings", [{}, {"pair": True}])
def test_masktune_is_measured_as_a_pair(settings, tmp_path):
    config = Config(
        data="decoy_digits",
        data_settings={"size": 16},
        model="small_cnn",
        strategy="masktune",
        strategy_settings=settings,
        epochs=1,
        metrics=["accuracy", "risk_coverage"],
        metric_settings={"risk_coverage": {"score": "logit", "coverages": [1.0, 0.9]}},
    )
    results = train_run(config, tmp_path / "run", progress=False)
    found = selective_run(tmp_path / "run", coverages=[1.0, 0.9])
    assert (found["score"], found["pair"]) == ("logit", True)
    done = load_run(tmp_path / "run")
    data = done.config.load_data()
    first = done.config.build_model(data)
    load_weights_into(first, tmp_path / "run" / "stage-1-train" / "model.safetensors")
    second = done.config.build_model(data).eval()
    load_weights_into(second, tmp_path / "run" / "model.safetensors")
    assert isinstance(done.load_model(data), AbstainingPair) == bool(settings)
    pair = AbstainingPair(first, second).eval()
    x = data.test.take(torch.arange(len(data.test))).x
    with torch.no_grad():
        right = pair(x).argmax(dim=1) == data.test.labels
    assert found["lines"][0]["error"] == pytest.approx(1 - right.double().mean().item())
    written = results["metrics"]["test"]  # of the pair only where the run was asked for it
    if settings:
        assert written["accuracy"] == pytest.approx(right.double().mean().item())
        assert found["test"].items() <= written.items()
    place = "risk_coverage/threshold/90"
    assert results["metrics"]["validation"][place] != written[place]
    assert "risk_coverage/realised/90/coverage" in written
    assert "risk_coverage/realised/90/coverage" not in results["metrics"]["validation"]


def test_a_run_without_validation_data_is_refused(tmp_path):
    config = Config(
        data="decoy_digits",
        data_settings={"validation": 0},
        model="mlp",
        model_settings={"hidden": [4]},
        epochs=1,
        metrics=["accuracy"],
    )
    train_run(config, tmp_path, progress=False)
    with pytest.raises(InvalidSettingError, match="a run with validation data to choose threshold"):
        selective_run(tmp_path)


def test_command_line(run):
    def told(*options):
        return CliRunner().invoke(app, ["evaluate", str(run), "--selective", *options])

    shown = told()
    assert shown.exit_code == 0, shown.output
    assert "target coverage" in shown.stdout and "0.9500" in shown.stdout
    assert f"({run.name})" in shown.stdout
    assert json.loads(told("--json").stdout)["lines"] == selective_run(run)["lines"]
    both = told("--metrics", "accuracy")
    assert isinstance(both.exception, InvalidSettingError)
    assert "--metrics or --selective, but got both" in str(both.exception)
