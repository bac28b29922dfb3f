import json
import logging
import math
import sys

import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.errors import MissingExtraError, NonFiniteLossError, OutputError
from rightreasons.objectives import CrossEntropy, Loss, Term
from rightreasons.training.diagnosis import diagnose
from rightreasons.training.monitor import TrainingLog, gradient_norms, keep_stronger

LOSS = Loss(
    total=torch.tensor(3.5),
    parts={"cross_entropy": torch.tensor(0.5), "r3": torch.tensor(0.12345678)},
    weights={"cross_entropy": 1.0, "r3": 30.0},
    logits=torch.zeros(1, 2),
    parameters=(),
)


def row(epoch):
    return {
        "epoch": epoch,
        "lr": 0.1,
        "parts": {"cross_entropy": 0.5 / epoch, "r3": 0.25},
        "accuracy": 0.75,
        "seconds": 1.5,
        "note": "words are no scalar",
    }


def training_log(folder, *, num_epochs=2, progress=False, tensorboard=False):
    return TrainingLog(
        num_updates=10,
        num_epochs=num_epochs,
        folder=folder,
        progress=progress,
        tensorboard=tensorboard,
    )


def lines(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_one_line_an_epoch(tmp_path):
    with training_log(tmp_path) as log:
        log.restart([])
        assert lines(tmp_path) == []
        log.epoch(row(1))
        assert lines(tmp_path) == [row(1)]
        log.epoch(row(2))
    assert lines(tmp_path) == [row(1), row(2)]


def test_after_a_crash_nothing_is_there_twice(tmp_path):
    """The log ran ahead of the checkpoint, and its last line was torn."""
    with training_log(tmp_path) as log:
        log.epoch(row(1))
        log.epoch(row(2))
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"epoch": 3, "par')
    with training_log(tmp_path) as log:
        log.restart([row(1)])
        log.epoch(row(2))
    assert lines(tmp_path) == [row(1), row(2)]


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with training_log(None, tensorboard=True) as log:
        log.restart([row(1)])
        log.epoch(row(2))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there(tmp_path):
    with training_log(tmp_path / "missing") as log, pytest.raises(OutputError, match="No such"):
        log.restart([])


def test_epochs_are_told_to_the_logger(tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="rightreasons"), training_log(None) as log:
        log.epoch(row(2))
    assert caplog.messages == ["epoch 2: cross_entropy 0.25 r3 0.25, accuracy 0.7500, 1.5 s"]


def test_what_is_no_classifier_has_no_accuracy(caplog):
    plain = {name: value for name, value in row(2).items() if name != "accuracy"}
    with caplog.at_level(logging.INFO, logger="rightreasons"), training_log(None) as log:
        log.epoch(plain)
    assert caplog.messages == ["epoch 2: cross_entropy 0.25 r3 0.25, 1.5 s"]


@pytest.mark.parametrize(
    ("num_epochs", "told"),
    [
        (3, [1, 2, 3]),
        (25, [2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24]),
        (100, [*range(10, 101, 10)]),
    ],
)
def test_of_many_epochs_some_ten_are_told_and_all_are_written(tmp_path, caplog, num_epochs, told):
    log = training_log(tmp_path, num_epochs=num_epochs)
    with caplog.at_level(logging.INFO, logger="rightreasons"), log:
        for epoch in range(1, num_epochs + 1):
            log.epoch(row(epoch))
    assert [message.split(":")[0] for message in caplog.messages] == [f"epoch {n}" for n in told]
    assert len(lines(tmp_path)) == num_epochs


def test_a_live_line_needs_no_other(caplog, capsys):
    log = training_log(None, progress=True)
    with caplog.at_level(logging.INFO, logger="rightreasons"), log:
        log.epoch(row(1))
    assert caplog.messages == []
    assert capsys.readouterr().out == ""


def test_the_live_line_shows_every_part_of_the_loss_on_the_error_stream(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with training_log(None, progress=True) as log:
        log.update(5, 1, LOSS)
    out, err = capsys.readouterr()
    assert out == ""
    assert "epoch 2/2" in err
    assert "5/10" in err
    assert "cross_entropy 0.5 r3 0.1235" in err


def test_the_live_line_is_refreshed_at_most_ten_times_a_second(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("rightreasons.training.monitor.time.monotonic", lambda: now[0])
    monkeypatch.setenv("COLUMNS", "200")
    with training_log(None, progress=True) as log:
        log.update(1, 0, LOSS)
        now[0] += 0.05
        log.update(2, 0, LOSS)
        now[0] += 0.01
        log.update(3, 0, LOSS)
    assert "1/10" in capsys.readouterr().err


@pytest.mark.parametrize("progress", [None, False])
def test_nothing_is_shown_where_nobody_watches(progress, capsys):
    with training_log(None, progress=progress) as log:
        log.update(5, 1, LOSS)
    assert capsys.readouterr() == ("", "")


def test_the_live_line_ends_with_an_error(capsys):
    with pytest.raises(KeyError), training_log(None, progress=True) as log:
        raise KeyError
    assert log._bar.finished or not log._bar.live.is_started


def test_tensorboard_gets_every_number(tmp_path):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="no tensorboard"
    )
    with training_log(tmp_path, tensorboard=True) as log:
        log.epoch(row(1))
        log.epoch(row(2))
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {
        "epoch",
        "lr",
        "parts/cross_entropy",
        "parts/r3",
        "accuracy",
        "seconds",
    }
    found = [(event.step, event.value) for event in events.Scalars("parts/cross_entropy")]
    assert found == [(1, 0.5), (2, 0.25)]


def test_without_tensorboard_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    message = r'Writing for TensorBoard needs an extra: run `pip install "rightreasons\[tensorboard'
    with pytest.raises(MissingExtraError, match=message):
        training_log(tmp_path, tensorboard=True)


LABELS = torch.tensor([0, 1]).repeat(5000)
TASK = "cross_entropy"
WEIGHTS = {"cross_entropy": 1.0, "r3": 30.0, "weight_decay": 0.1}


def loss_of(parts, weights, parameters):
    total = sum(weights[name] * part for name, part in parts.items())
    logits = torch.zeros(1, 2)
    return Loss(total, parts, weights, logits, tuple(parameters))


def test_a_pull_is_the_norm_of_the_weighted_gradient():
    first, second = torch.tensor([1.0, 2.0], requires_grad=True), torch.ones(1, requires_grad=True)
    parts = {"task": 3 * first[0] + 4 * second[0], "penalty": first.square().sum()}
    loss = loss_of(parts, {"task": 1.0, "penalty": 10.0}, [first, second])
    expected = {"task": 5.0, "penalty": 10 * math.sqrt(4 + 16)}
    assert gradient_norms(loss) == pytest.approx(expected)
    loss.backward()  # the graph is still there
    assert first.grad is not None


def test_looking_at_pulls_touches_no_gradient():
    weight = torch.ones(3, requires_grad=True)
    gradient_norms(loss_of({"task": weight.sum()}, {"task": 1.0}, [weight]))
    assert weight.grad is None


def test_of_two_batches_the_one_with_the_stronger_penalty_is_kept():
    weak, strong = {"task": 1.0, "r3": 0.0}, {"task": 2.0, "r3": 4.0}
    assert keep_stronger({}, weak, "task") is weak
    assert keep_stronger(weak, strong, "task") is keep_stronger(strong, weak, "task") is strong
    vanished = {"task": 0.0, "r3": 1.0}
    assert keep_stronger(strong, vanished, "task") is vanished


def test_a_part_that_does_not_reach_the_weights_does_not_pull():
    weight, other = torch.ones(3, requires_grad=True), torch.ones(1, requires_grad=True)
    parts = {"task": weight.sum(), "constant": torch.tensor(2.0), "elsewhere": other.sum()}
    found = gradient_norms(loss_of(parts, dict.fromkeys(parts, 1.0), [weight]))
    assert found == pytest.approx({"task": math.sqrt(3), "constant": 0, "elsewhere": 0})


def test_a_model_better_than_the_most_frequent_class_learned():
    found = diagnose(0.9, LABELS, WEIGHTS, TASK, [])
    assert found.learned
    assert found.suspects == ()
    assert found.message == (
        "The model fits the training data (training accuracy 0.900, most frequent class 0.500)."
    )


@pytest.mark.parametrize(
    ("labels", "accuracy", "learned"),
    [
        (LABELS, 0.518, False),  # within two points
        (LABELS, 0.525, True),
        (LABELS[:100], 0.62, False),  # within three standard deviations of so few
        (LABELS[:100], 0.68, True),
        (LABELS[:2], 0.5, False),
        (LABELS[:2], 1.0, True),  # at most half way to perfect is asked for
        (torch.tensor([0] * 99 + [1]), 0.99, False),
        (torch.tensor([0] * 99 + [1]), 1.0, True),
        (torch.tensor([0, 1, 2, 2]).repeat(1000), 0.51, False),
        (torch.tensor([0, 1, 2, 2]).repeat(1000), 0.55, True),
    ],
)
def test_how_much_better_it_must_be(labels, accuracy, learned):
    assert diagnose(accuracy, labels, WEIGHTS, TASK, []).learned is learned


def test_a_penalty_that_pulled_harder_than_the_task_is_named():
    rows = [
        {"cross_entropy": 2.0, "r3": 1.0, "weight_decay": 0.1},
        {"cross_entropy": 0.5, "r3": 20.0, "weight_decay": 0.4},
    ]
    found = diagnose(0.5, LABELS, WEIGHTS, TASK, rows)
    assert not found.learned
    assert found.suspects == ("r3",)
    assert found.message == (
        "A penalty switched learning off (training accuracy 0.500, most frequent class 0.500): "
        "`r3` (weight 30) pulled up to 40 times as hard as `cross_entropy`. Lower its weight, "
        'or use weight="auto".'
    )


def test_all_penalties_that_pulled_harder_are_named():
    rows = [{"cross_entropy": 1.0, "r3": 2.0, "weight_decay": 3.0}]
    assert diagnose(0.5, LABELS, WEIGHTS, TASK, rows).suspects == ("r3", "weight_decay")


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"cross_entropy": 1.0, "r3": 0.9, "weight_decay": 0.0}],
        [{"cross_entropy": 0.0, "r3": 0.0, "weight_decay": 0.0}],
    ],
    ids=["no epoch", "weak penalties", "no gradients"],
)
def test_without_a_suspect_the_advice_is_another(rows):
    found = diagnose(0.5, LABELS, WEIGHTS, TASK, rows)
    assert not found.learned
    assert found.suspects == ()
    assert "no penalty pulled harder than the task. Try more epochs" in found.message


def test_an_objective_of_one_term_has_no_penalty():
    found = diagnose(0.5, LABELS, {"cross_entropy": 1.0}, TASK, [{"cross_entropy": 1.0}])
    assert found.suspects == ()


def test_the_task_need_not_come_first():
    rows = [{"r3": 5.0, "cross_entropy": 1.0}]
    found = diagnose(0.5, LABELS, {"r3": 9.0, "cross_entropy": 1.0}, TASK, rows)
    assert found.suspects == ("r3",)


def test_a_penalty_that_left_the_task_nothing_to_pull_with_is_named():
    rows = [{"cross_entropy": 0.0, "r3": 5.0}]
    assert diagnose(0.5, LABELS, {"cross_entropy": 1.0, "r3": 9.0}, TASK, rows).suspects == ("r3",)


def test_one_class_is_nothing_to_learn():
    assert diagnose(1.0, torch.zeros(5).long(), WEIGHTS, TASK, []).learned


class Bad(Term):
    """Infinite in value, or in its gradient at zero."""

    def __init__(self, *, in_value):
        super().__init__()
        self.in_value = in_value

    def forward(self, probe):
        if self.in_value:
            return probe.logits.sum(dim=1) / 0.0
        return (0.0 * probe.logits.sum(dim=1)).abs().sqrt()


@pytest.mark.parametrize(
    ("in_value", "words"),
    [(True, "the term `bad` became NaN"), (False, "the gradient of `bad` became NaN")],
)
def test_nothing_reaches_the_weights(in_value, words):
    model = nn.Linear(3, 2)
    before = model.weight.detach().clone()
    batch = rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1]))
    with pytest.raises(NonFiniteLossError, match=words) as stopped:
        rr.fit(model, CrossEntropy() + 1.0 * Bad(in_value=in_value), batch, epochs=1)
    assert torch.equal(model.weight, before)
    assert "last good state" not in str(stopped.value)  # no folder was given
    assert "Lower the learning rate" in str(stopped.value)


class Blows(nn.Module):
    """Gives NaN at its sixth pass, through BatchNorm."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.net(x * float("nan") if self.calls == 6 else x)


def test_what_is_saved_is_the_state_before_the_bad_pass(tmp_path):
    batch = rr.Batch(x=torch.rand(64, 5), y=torch.arange(64) % 3, group=torch.arange(64) % 2)
    objective = rr.recipes.group_dro(num_groups=2)
    with pytest.raises(NonFiniteLossError):
        rr.fit(Blows(), objective, batch, epochs=3, batch_size=16, out=tmp_path)
    saved = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert saved["model"]["net.1.running_mean"].isfinite().all()
    assert saved["model"]["net.1.num_batches_tracked"] == 5
    assert saved["objective"]["terms.group_dro.log_weights"].isfinite().all()
    assert saved["position"]["sums"]["samples"] == 16  # the epoch's first update, not the bad one


def test_a_log_function_gets_every_number_of_an_epoch():
    rows = []
    data = rr.Batch(x=torch.rand(8, 3), y=torch.arange(8) % 2, mask=torch.ones(8, 3))
    fitted = rr.fit(
        nn.Linear(3, 2),
        rr.recipes.r3(weight=2.0),
        data,
        validation=data,
        epochs=2,
        progress=False,
        log=lambda numbers, step: rows.append((step, numbers)),
    )
    assert [step for step, _ in rows] == [1, 2]
    for (_, numbers), kept in zip(rows, fitted.history, strict=True):
        assert all(type(value) is float for value in numbers.values())
        assert numbers["parts/r3"] == kept["parts"]["r3"]
        assert numbers["weights/r3"] == 2.0
        assert numbers["validation/accuracy"] == kept["validation"]["accuracy"]
        assert numbers["lr"] == kept["lr"]


def test_a_log_that_fails_costs_no_training(caplog):
    def log(numbers, step):
        raise ConnectionError("no route")

    data = rr.Batch(x=torch.rand(8, 3), y=torch.arange(8) % 2)
    with caplog.at_level(logging.WARNING, logger="rightreasons"):
        fitted = rr.fit(nn.Linear(3, 2), rr.recipes.erm(), data, epochs=2, progress=False, log=log)
    assert len(fitted.history) == 2
    assert "epoch 1: `log` failed, training goes on: ConnectionError: no route" in caplog.text
    for wrong in (lambda numbers: None, 3):
        with pytest.raises(rr.errors.InvalidSettingError, match=r"called as log\(numbers, step="):
            rr.fit(nn.Linear(3, 2), rr.recipes.erm(), data, epochs=1, log=wrong)
