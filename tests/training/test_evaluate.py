import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.datasets import InMemory
from rightreasons.errors import InvalidBatchError, InvalidSettingError, UnknownNameError
from rightreasons.metrics import Accuracy, GroupAccuracy, Metric
from rightreasons.training import evaluate as evaluation
from rightreasons.training.evaluate import evaluate_parts

X = torch.arange(30.0).reshape(10, 3) / 30
Y = torch.arange(10) % 2
BATCH = rr.Batch(x=X, y=Y, mask=(X > 0.5).float(), group=Y)


class Seen(Metric):
    """What of the model and the data comes to a metric."""

    name = "seen"
    higher_is_better = True
    layers = ("0",)

    def __init__(self):
        super().__init__()
        self.prepared = []
        self.sizes = []
        self.probes = []

    def prepare(self, data):
        self.prepared.append(data)

    def measure(self, probe):
        self.sizes.append(len(probe.batch))
        self.probes.append(probe)
        return {"value": probe.activations["0"].sum(dim=1)}

    def summary(self, rows):
        return {"": float(len(rows["value"])), "sum": float(rows["value"].sum())}


def net():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def test_values_are_named_by_metric_and_part():
    values = rr.evaluate(net(), BATCH, [Accuracy(), "calibration-error"])
    assert list(values) == [
        "accuracy",
        "accuracy/low",
        "accuracy/high",
        "accuracy/n",
        "calibration_error",
    ]


def test_without_metrics_all_that_suit_the_data():
    names = {name.split("/")[0] for name in rr.evaluate(net(), BATCH)}
    assert names == {metric.name for metric in rr.metrics.suitable(rr.datasets.InMemory(BATCH))}
    assert names < set(rr.metrics.METRICS)
    plain = rr.Batch(x=X, y=Y)
    assert {name.split("/")[0] for name in rr.evaluate(net(), plain)} == {
        "accuracy",
        "calibration_error",
    }


def test_a_metric_sees_each_batch_once_with_the_layers_it_asked_for():
    model, data, metric = net(), InMemory(BATCH), Seen()
    values = rr.evaluate(model, data, [metric], batch_size=4)
    assert metric.prepared == [data]
    assert metric.sizes == [4, 4, 2]
    assert values["seen"] == 10
    assert values["seen/sum"] == pytest.approx(float(model[0](X).detach().sum()), rel=1e-5)
    places = torch.cat([probe.batch.index for probe in metric.probes])
    assert torch.equal(places, torch.arange(10))


def test_metrics_share_one_pass():
    class SeenToo(Seen):
        name = "seen_too"

    first, second = Seen(), SeenToo()
    second.layers = ()
    calls = []
    model = net()
    model.register_forward_hook(lambda *_: calls.append(1))
    rr.evaluate(model, BATCH, [first, second, "accuracy"], batch_size=5)
    assert len(calls) == 2
    assert [a is b for a, b in zip(first.probes, second.probes, strict=True)] == [True, True]


def test_the_same_metric_twice_is_refused():
    with pytest.raises(InvalidSettingError, match="each metric once, but got accuracy, acc"):
        rr.evaluate(net(), BATCH, ["accuracy", "accuracy"])


def test_no_metrics_no_values_and_no_empty_batches():
    assert rr.evaluate(net(), BATCH, []) == {}
    with pytest.raises(InvalidSettingError, match="`batch_size` to be a whole number from 1"):
        rr.evaluate(net(), BATCH, batch_size=0)


def test_gradients_are_taken_only_if_a_metric_asks():
    metric = Seen()
    rr.evaluate(net(), BATCH, [metric])
    assert not metric.probes[0].logits.requires_grad
    metric = Seen()
    rr.evaluate(net(), BATCH, [metric, "input_gradient_mass"])
    assert metric.probes[0].logits.requires_grad


def test_works_where_gradients_are_switched_off():
    with torch.no_grad():
        values = rr.evaluate(net(), BATCH, ["input_gradient_mass"])
    assert values["input_gradient_mass/n"] > 0


def test_the_ceiling_of_rows_reaches_the_probe():
    metric = Seen()
    rr.evaluate(net(), BATCH, [metric], max_rows=3)
    assert metric.probes[0].max_rows == 3


def test_a_model_without_parameters_can_be_measured():
    values = rr.evaluate(nn.Identity(), rr.Batch(x=torch.eye(2), y=torch.arange(2)), ["accuracy"])
    assert values["accuracy"] == 1


def test_torch_data_can_be_measured():
    data = torch.utils.data.TensorDataset(X, Y)
    model = net()
    assert rr.evaluate(model, data) == rr.evaluate(model, rr.Batch(x=X, y=Y))


def test_unknown_metrics_are_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match="Expected a metric, but got 'acuracy'. Did you mea"):
        rr.evaluate(net(), BATCH, ["acuracy"])


def test_labels_beyond_the_outputs_are_refused():
    with pytest.raises(InvalidBatchError, match="Expected labels from 0 to 1, for the 2 outputs"):
        rr.evaluate(net(), BATCH.replace(y=Y + 1))


def test_a_bar_is_shown_on_request_only(capsys):
    rr.evaluate(net(), BATCH, [GroupAccuracy()])
    assert "".join(capsys.readouterr()) == ""
    rr.evaluate(net(), BATCH, [GroupAccuracy()], progress=True)
    assert "Evaluating" in "".join(capsys.readouterr())


def test_parts_take_thresholds_from_validation_data_which_is_measured_first():
    class Noted(Metric):
        name, higher_is_better = "noted", True
        seen = None

        def measure(self, probe):
            return {"y": probe.batch.y}

        def summary(self, rows):
            return {"": 1.0, "sum": float(rows["y"].sum())}

        def calibrate(self, values):
            self.seen = dict(values)

    def part(*y):
        return InMemory(rr.Batch(x=torch.zeros(len(y), 3), y=torch.tensor(y)))

    test, validation = Noted(), Noted()
    parts = {"test": part(0, 0), "validation": part(1, 1), "other": None, "plain": part(0)}
    metrics = {"test": [test], "validation": [validation], "other": None, "plain": ["accuracy"]}
    found = evaluate_parts(nn.Linear(3, 2), parts, metrics)
    assert list(found) == ["test", "validation", "plain"]
    assert test.seen == {"sum": 2.0}
    assert validation.seen is None
    assert found["test"] == {"noted": 1.0, "noted/sum": 0.0}


@pytest.mark.parametrize(
    ("budget", "gradient", "sizes"),
    # a sample is 3 numbers and gives 4: 12 and 16 bytes, and the graph keeps both
    [
        (1 << 20, True, [10]),
        (112, True, [4, 4, 2]),
        (1, True, [1] * 10),
        (192, False, [3, 3, 3, 1]),
    ],
)
def test_passes_fit_into_the_budget(monkeypatch, budget, gradient, sizes):
    monkeypatch.setitem(evaluation.PASS_BYTES, "cpu", budget)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    metric = Seen()
    metric.needs_gradient = gradient
    rr.evaluate(model, BATCH, [metric])
    assert metric.sizes == sizes
