import json
import logging
import sys

import pytest
import torch

from rightreasons.errors import MissingExtraError, OutputError
from rightreasons.objectives import Loss
from rightreasons.training.monitor import TrainingLog

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
