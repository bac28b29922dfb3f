import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.core import memory
from rightreasons.datasets import InMemory
from rightreasons.errors import InvalidBatchError, InvalidSettingError, UnknownNameError
from rightreasons.metrics import Accuracy, GroupAccuracy, Metric
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


def test_a_graph_is_only_there_for_metrics_that_ask_for_gradients():
    class SeenWithGradients(Seen):
        name = "seen_with_gradients"
        needs_gradient = True

    metric, other, calls = Seen(), SeenWithGradients(), []
    model = net()
    model.register_forward_hook(lambda *_: calls.append(1))
    rr.evaluate(model, BATCH, [metric, other, "swap_accuracy"])
    assert other.probes[0].logits.requires_grad
    alone = metric.probes[0]
    assert not alone.logits.requires_grad
    assert not alone.activations["0"].requires_grad
    assert len(calls) == 2  # one pass for all, one of swapped copies


def test_passes_shrink_to_the_memory_budget_and_values_stay(monkeypatch):
    names = ["accuracy", "swap_accuracy", "input_gradient_mass", "rps", "insertion"]
    names += ["adversarial_accuracy", "feature_leakage", "gradient_robustness"]
    model, rows = net(), []
    wide = rr.Batch(x=X.repeat(40, 1), y=Y.repeat(40), mask=BATCH.mask.repeat(40, 1))
    expected = rr.evaluate(model, wide, [*names, "certified_change"])
    monkeypatch.setattr(memory, "_SMALL", 0)
    monkeypatch.setattr(memory, "_free_memory", lambda: 4 * 16 * memory.pass_bytes(model, X).graph)
    hook = model.register_forward_hook(lambda module, inputs, output: rows.append(len(output)))
    found = rr.evaluate(model, wide, names)
    hook.remove()  # bounds refuse it
    found |= rr.evaluate(model, wide, ["certified_change"])
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert 1 < max(rows) <= 16


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
