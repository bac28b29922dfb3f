import json
import os
import signal

import numpy as np
import pytest
import torch
from torch import nn, optim

import rightreasons as rr
from rightreasons.errors import (
    CheckpointMismatchError,
    InvalidSettingError,
    NonFiniteLossError,
    OutputError,
)
from rightreasons.metrics import METRICS
from rightreasons.objectives import CrossEntropy, Term
from rightreasons.training.settings import SELECTIONS


def separable(size=60, masks=True):
    """Two classes told apart by the first feature; the second must not matter."""
    generator = torch.Generator().manual_seed(1)
    y = torch.arange(size) % 2
    x = torch.rand(size, 4, generator=generator)
    x[:, 0] += y
    mask = torch.tensor([0.0, 1.0, 0.0, 0.0]).expand(size, 4) if masks else None
    return rr.Batch(x=x, y=y, mask=mask, group=y)


def net(dropout=0.0):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, 2))


def weights(model):
    return torch.cat([tensor.flatten() for tensor in model.state_dict().values()])


def test_learns_and_tells_what_happened():
    model = net()
    fitted = rr.fit(
        model, rr.recipes.r3(weight=1.0), separable(), epochs=30, lr=0.05, batch_size=20
    )
    assert rr.evaluate(model, separable(), ["accuracy"])["accuracy"] > 0.95
    assert [row["epoch"] for row in fitted.history] == list(range(1, 31))
    assert set(fitted.history[0]["parts"]) == {"cross_entropy", "r3"}
    assert (
        fitted.history[-1]["parts"]["cross_entropy"] < fitted.history[0]["parts"]["cross_entropy"]
    )
    assert fitted.history[-1]["lr"] == 0.0
    assert fitted.weights == {"cross_entropy": 1.0, "r3": 1.0}
    assert fitted.selection == {"used": "none", "epoch": 30}
    assert fitted.diagnosis.learned


def test_the_same_seed_gives_the_same_weights_and_the_users_random_numbers_stay():
    results = []
    for seed in (0, 0, 1):
        model = net(dropout=0.5)
        torch.manual_seed(7)
        rr.fit(model, rr.recipes.erm(), separable(), epochs=2, batch_size=16, seed=seed)
        results.append((weights(model), torch.rand(1).item()))
    assert torch.equal(results[0][0], results[1][0])
    assert not torch.equal(results[0][0], results[2][0])
    assert results[0][1] == results[1][1] == results[2][1]


def test_equals_a_loop_by_hand():
    data, model, twin = separable(), net(), net()
    rr.fit(model, rr.recipes.erm(), data, epochs=1, batch_size=60, lr=0.1, optimizer="sgd")
    loss = nn.functional.cross_entropy(twin(data.x), data.y)
    loss.backward()
    for parameter in twin.parameters():
        parameter.data -= 0.1 * parameter.grad
    torch.testing.assert_close(weights(model), weights(twin))


def test_accumulated_batches_equal_one_large_batch():
    one, many = net(), net()
    data = separable(50)  # the last update is smaller than the others
    settings = {"epochs": 2, "optimizer": "sgd", "lr": 0.1}
    rr.fit(one, rr.recipes.r3(weight=1.0), data, batch_size=16, **settings)
    rr.fit(many, rr.recipes.r3(weight=1.0), data, batch_size=4, accumulate=4, **settings)
    torch.testing.assert_close(weights(one), weights(many))


def test_clipping_bounds_the_step():
    model, before = net(), weights(net())
    data = separable()
    rr.fit(
        model, rr.recipes.erm(), data, epochs=1, batch_size=60, lr=1.0, optimizer="sgd", clip=1e-3
    )
    assert (weights(model) - before).norm().item() == pytest.approx(1e-3, rel=1e-3)


def test_any_optimizer_and_scheduler():
    rates = []

    def halving(optimizer, num_updates):
        rates.append(num_updates)
        return optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

    fitted = rr.fit(
        net(),
        rr.recipes.erm(),
        separable(),
        epochs=2,
        batch_size=30,
        optimizer=lambda parameters: optim.RMSprop(parameters, lr=0.4),
        scheduler=halving,
    )
    assert rates == [4]
    assert fitted.history[-1]["lr"] == pytest.approx(0.4 / 16)


@pytest.mark.parametrize("select", ["accuracy", "swap_accuracy", "worst_group"])
def test_selection_keeps_the_best_epoch_and_says_so(select):
    model = net()
    fitted = rr.fit(
        model,
        rr.recipes.erm(),
        separable(),
        validation=separable(40),
        epochs=4,
        lr=0.05,
        select=select,
    )
    key = {"worst_group": "group_accuracy/worst"}.get(select, select)
    values = [row["validation"][key] for row in fitted.history]
    assert fitted.selection["used"] == select
    assert fitted.selection["value"] == max(values)
    assert fitted.selection["epoch"] == values.index(max(values)) + 1
    assert rr.evaluate(model, separable(40))[key] == max(values)


@pytest.mark.parametrize("precision", ["bf16-mixed", "64-true"])
def test_other_precisions_run(precision):
    fitted = rr.fit(
        net(), rr.recipes.r3(weight=1.0), separable(), epochs=20, lr=0.05, precision=precision
    )
    assert fitted.diagnosis.learned


def test_automatic_weights_are_reported():
    fitted = rr.fit(net(), rr.recipes.r3(weight="auto"), separable(), epochs=2, batch_size=10)
    assert fitted.weights["r3"] > 0
    assert fitted.history[-1]["weights"] == fitted.weights


def test_a_penalty_that_switches_learning_off_is_named():
    fitted = rr.fit(
        net(), rr.recipes.input_gradient(weight=1e5), separable(), epochs=5, lr=0.05, batch_size=10
    )
    assert not fitted.diagnosis.learned
    assert fitted.diagnosis.suspects == ("input_gradient",)
    assert "`input_gradient` (weight 100000) pulled" in fitted.diagnosis.message


def test_writes_a_log_and_weights(tmp_path):
    model = net()
    fitted = rr.fit(
        model, rr.recipes.erm(), separable(), validation=separable(), epochs=2, out=tmp_path
    )
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert rows == fitted.history
    assert {"epoch", "updates", "lr", "parts", "accuracy", "validation"} <= set(rows[0])
    assert (tmp_path / "model.safetensors").exists()
    assert not list(tmp_path.glob(".*"))


def test_tensorboard_files_are_written(tmp_path):
    rr.fit(net(), rr.recipes.erm(), separable(), epochs=1, out=tmp_path, tensorboard=True)
    assert list((tmp_path / "tensorboard").glob("events*"))


def test_an_old_run_is_not_overwritten(tmp_path):
    rr.fit(net(), rr.recipes.erm(), separable(), epochs=1, out=tmp_path)
    with pytest.raises(OutputError, match="Expected a folder without a run.*--resume"):
        rr.fit(net(), rr.recipes.erm(), separable(), epochs=1, out=tmp_path)


def test_resuming_a_finished_run_changes_nothing(tmp_path):
    model, other = net(), net()
    first = rr.fit(model, rr.recipes.erm(), separable(), epochs=2, out=tmp_path)
    again = rr.fit(other, rr.recipes.erm(), separable(), epochs=2, out=tmp_path, resume=True)
    assert torch.equal(weights(model), weights(other))
    assert again.history == first.history


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    rr.fit(net(), rr.recipes.erm(), separable(), epochs=1, out=tmp_path)
    with pytest.raises(CheckpointMismatchError, match="of another one.*0.weight \\(8, 4\\)"):
        rr.fit(
            nn.Sequential(nn.Linear(4, 2)),
            rr.recipes.erm(),
            separable(),
            epochs=1,
            out=tmp_path,
            resume=True,
        )


def test_resuming_with_another_weight_is_refused(tmp_path):
    rr.fit(net(), rr.recipes.r3(weight=1.0), separable(), epochs=1, out=tmp_path)
    with pytest.raises(CheckpointMismatchError, match="weights .*1.0.*, now .*2.0"):
        rr.fit(net(), rr.recipes.r3(weight=2.0), separable(), epochs=1, out=tmp_path, resume=True)


def test_resuming_with_other_settings_is_refused(tmp_path):
    rr.fit(net(), rr.recipes.erm(), separable(), epochs=1, out=tmp_path)
    with pytest.raises(CheckpointMismatchError, match="lr 0.001, now 0.5"):
        rr.fit(net(), rr.recipes.erm(), separable(), epochs=1, lr=0.5, out=tmp_path, resume=True)


def test_resuming_with_another_number_of_threads_is_logged(tmp_path, caplog):
    threads = torch.get_num_threads()
    rr.fit(net(), rr.recipes.erm(), separable(), epochs=1, out=tmp_path)
    rr.fit(net(), rr.recipes.erm(), separable(), epochs=1, out=tmp_path, resume=True)
    assert "rounded differently" not in caplog.text
    torch.set_num_threads(threads + 1)
    try:
        rr.fit(net(), rr.recipes.erm(), separable(), epochs=1, out=tmp_path, resume=True)
    finally:
        torch.set_num_threads(threads)
    words = f"numbers are rounded differently: threads {threads}, now {threads + 1}. The results"
    assert words in caplog.text


class Poison(Term):
    """Turns bad after some updates, in value or in gradient only."""

    def __init__(self, *, after, in_value):
        super().__init__()
        self.after, self.in_value, self.calls = after, in_value, 0

    def forward(self, probe):
        self.calls += 1
        if self.calls <= self.after:
            return 0.0 * probe.logits.sum(dim=1)
        if self.in_value:
            return float("nan") * probe.logits.sum(dim=1)
        return (0.0 * probe.logits.sum(dim=1)).abs().sqrt()


@pytest.mark.parametrize(
    ("in_value", "words"),
    [(True, "the term `poison` became NaN"), (False, "the gradient of `poison` became NaN")],
)
def test_a_nan_stops_and_names_the_term(tmp_path, in_value, words):
    model = net()
    objective = CrossEntropy() + 1.0 * Poison(after=5, in_value=in_value)
    with pytest.raises(NonFiniteLossError, match=words + ".*epoch 2, update 3.*last good state"):
        rr.fit(model, objective, separable(), epochs=4, batch_size=20, out=tmp_path)
    saved = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert all(torch.isfinite(tensor).all() for tensor in saved["model"].values())
    assert (saved["position"]["epoch"], saved["position"]["update"]) == (1, 2)


class Interrupt(Term):
    """Presses Ctrl-C, or sends another signal, in the middle of an update."""

    def __init__(self, *, at, number=signal.SIGINT):
        super().__init__()
        self.at, self.calls, self.number = at, 0, number

    def forward(self, probe):
        self.calls += 1
        if self.calls == self.at:
            os.kill(os.getpid(), self.number)
        return 0.0 * probe.logits.sum(dim=1)


def test_ctrl_c_saves_and_says_how_to_resume(tmp_path):
    settings = {"epochs": 3, "batch_size": 10, "seed": 5}
    whole = net(dropout=0.3)
    rr.fit(whole, CrossEntropy() + 1.0 * Interrupt(at=-1), separable(), **settings)
    model = net(dropout=0.3)
    with pytest.raises(KeyboardInterrupt, match="saved in .*checkpoint.pt; go on with resume=True"):
        rr.fit(model, CrossEntropy() + 1.0 * Interrupt(at=8), separable(), out=tmp_path, **settings)
    resumed = net(dropout=0.3)
    rr.fit(
        resumed,
        CrossEntropy() + 1.0 * Interrupt(at=-1),
        separable(),
        out=tmp_path,
        resume=True,
        **settings,
    )
    assert torch.equal(weights(resumed), weights(whole))


@pytest.fixture
def usual_signals():
    """Signals as a terminal leaves them: `nohup` makes a process ignore SIGHUP, and fit obeys."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number in before:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("at", [8, 12])  # in the middle, and in the last update
def test_a_scheduler_s_signal_saves_as_ctrl_c_does(tmp_path, number, at, caplog):
    settings = {"epochs": 3, "batch_size": 10, "seed": 5}
    whole = net(dropout=0.3)
    rr.fit(whole, CrossEntropy() + 1.0 * Interrupt(at=-1), separable(), **settings)
    objective = CrossEntropy() + 1.0 * Interrupt(at=at, number=number)
    with pytest.raises(SystemExit) as stop:
        rr.fit(net(dropout=0.3), objective, separable(), out=tmp_path, **settings)
    assert stop.value.code == 128 + number
    assert "checkpoint.pt; go on with resume=True" in caplog.text
    assert signal.getsignal(number) == signal.SIG_DFL
    resumed, objective = net(dropout=0.3), CrossEntropy() + 1.0 * Interrupt(at=-1)
    rr.fit(resumed, objective, separable(), out=tmp_path, resume=True, **settings)
    assert torch.equal(weights(resumed), weights(whole))


def test_a_signal_while_the_last_epoch_is_measured_ends_the_fit(tmp_path, monkeypatch):
    def measure(*args, **settings):
        os.kill(os.getpid(), signal.SIGTERM)
        return {"accuracy": 1.0}

    monkeypatch.setattr("rightreasons.training.fit.evaluate", measure)
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a library may have set its own
    try:
        with pytest.raises(SystemExit) as stop:
            rr.fit(
                net(), CrossEntropy(), separable(), validation=separable(), epochs=1, out=tmp_path
            )
    finally:
        signal.signal(signal.SIGTERM, before)
    assert stop.value.code == 128 + signal.SIGTERM
    assert (tmp_path / "checkpoint.pt").exists()


def test_a_signal_that_somebody_ignores_or_handles_is_left_alone():
    noted = []
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    also_before = signal.signal(signal.SIGTERM, lambda *_: noted.append("mine"))
    try:
        for number in (signal.SIGHUP, signal.SIGTERM):
            rr.fit(
                net(), CrossEntropy() + 1.0 * Interrupt(at=1, number=number), separable(), epochs=1
            )
    finally:
        signal.signal(signal.SIGHUP, before)
        signal.signal(signal.SIGTERM, also_before)
    assert noted == ["mine"]


def test_ctrl_c_without_a_folder_says_that_nothing_is_saved():
    with pytest.raises(KeyboardInterrupt, match="Nothing was saved"):
        rr.fit(net(), CrossEntropy() + 1.0 * Interrupt(at=1), separable(), epochs=1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epochs": 0}, "Expected `epochs` of at least 1"),
        ({"batch_size": 0}, "Expected `batch_size` of at least 1"),
        ({"accumulate": 0}, "Expected `accumulate` of at least 1"),
        ({"clip": 0.0}, "Expected `clip` above 0"),
        ({"select": "best"}, "Expected `select` to be one of"),
        ({"select": "accuracy"}, "Expected `validation` data to select by 'accuracy'"),
        ({"lr": -1.0}, "Expected `lr` above 0"),
        ({"optimizer": "adamm"}, "Expected an optimizer, but got 'adamm'. Did you mean 'adam'"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises((InvalidSettingError, rr.errors.UnknownNameError), match=words):
        rr.fit(net(), rr.recipes.erm(), separable(), **{"epochs": 1, **settings})


def test_a_frozen_model_is_refused():
    with pytest.raises(InvalidSettingError, match="all of them are frozen"):
        rr.fit(net().requires_grad_(False), rr.recipes.erm(), separable(), epochs=1)


def test_an_unused_parameter_is_left_alone():
    model = net()
    model.register_parameter("idle", nn.Parameter(torch.ones(2)))
    rr.fit(model, rr.recipes.r3(), separable(), epochs=1)
    assert model.idle.tolist() == [1.0, 1.0]


def test_data_drawn_anew_each_epoch_are_asked_for_by_epoch():
    epochs = []

    class Redrawn(rr.datasets.InMemory):
        def at_epoch(self, epoch):
            epochs.append(epoch)
            return self

    rr.fit(net(), rr.recipes.erm(), Redrawn(separable()), epochs=3)
    assert epochs == [0, 1, 2]


def test_a_fit_begins_with_what_was_asked_for():
    objective = rr.recipes.group_dro(step_size=0.5) + "auto" * rr.objectives.R3()
    results = []
    for _ in range(2):
        model = net()
        fitted = rr.fit(model, objective, separable(), epochs=2, batch_size=16)
        results.append((weights(model), fitted.weights))
    assert torch.equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]
    assert objective.weights["r3"] == 0.0


def test_numbers_of_numpy_make_a_checkpoint_that_loads(tmp_path):
    settings = {"epochs": np.int64(2), "batch_size": np.int64(16), "seed": np.int64(1)}
    first = rr.fit(
        net(), rr.recipes.erm(), separable(), lr=np.float64(1e-3), out=tmp_path, **settings
    )
    again = rr.fit(
        net(), rr.recipes.erm(), separable(), lr=1e-3, out=tmp_path, resume=True, **settings
    )
    assert again.history == first.history


def test_a_term_is_an_objective():
    by_term, by_recipe = net(), net()
    rr.fit(by_term, CrossEntropy(), separable(), epochs=1)
    rr.fit(by_recipe, rr.recipes.erm(), separable(), epochs=1)
    assert torch.equal(weights(by_term), weights(by_recipe))


def test_one_sample_left_over_is_no_batch_of_its_own():
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    rr.fit(model, rr.recipes.erm(), separable(17), epochs=1, batch_size=8)
    assert model[1].num_batches_tracked == 2


def test_layers_put_in_test_mode_stay_in_it():
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    model[1].eval()
    rr.fit(model, rr.recipes.erm(), separable(), validation=separable(), epochs=2)
    assert model[1].running_mean.tolist() == [0.0] * 8


def test_a_compiled_model_can_do_without_second_derivatives():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    model._compiled_call_impl = model._call_impl  # what Module.compile sets
    before = weights(model)
    rr.fit(model, rr.recipes.erm(), separable(), epochs=1)
    assert not torch.equal(weights(model), before)
    with pytest.raises(rr.errors.DoubleBackwardError, match="compiled by torch.compile"):
        rr.fit(model, rr.recipes.r3(), separable(), epochs=1)


@pytest.mark.parametrize(
    ("select", "words"),
    [("swap_accuracy", "data with masks"), ("worst_group", "data with groups")],
)
def test_a_selection_that_cannot_be_measured_is_refused_before_training(select, words):
    model, before = net(), weights(net())
    data = rr.Batch(x=torch.rand(8, 4), y=torch.arange(8) % 2)
    with pytest.raises(rr.errors.InvalidBatchError, match=words):
        rr.fit(model, rr.recipes.erm(), data, validation=data, epochs=1, select=select)
    assert torch.equal(weights(model), before)


def test_validation_samples_of_unknown_groups_cannot_select_by_the_worst():
    y = torch.arange(8) % 2
    data = rr.Batch(x=torch.rand(8, 4), y=y, group=y)
    unknown = data.replace(group=torch.full_like(y, -1))
    with pytest.raises(InvalidSettingError, match="known groups to select by 'worst_group', but"):
        rr.fit(net(), rr.recipes.erm(), data, validation=unknown, epochs=1, select="worst_group")


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": lambda parameters: optim.LBFGS(parameters)},
        {"scheduler": lambda optimizer, _: optim.lr_scheduler.ReduceLROnPlateau(optimizer)},
    ],
)
def test_steps_that_need_an_argument_are_refused(settings):
    with pytest.raises(InvalidSettingError, match="whose `step` needs no argument"):
        rr.fit(net(), rr.recipes.erm(), separable(), epochs=1, **settings)


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    torch.save(net().state_dict(), tmp_path / "checkpoint.pt")
    with pytest.raises(CheckpointMismatchError, match="it has no model, position, processes"):
        rr.fit(net(), rr.recipes.erm(), separable(), epochs=1, out=tmp_path, resume=True)


def test_every_selection_is_by_a_metric_there_is():
    for chosen in SELECTIONS.values():
        assert chosen is None or chosen[0] in METRICS


def test_a_tie_keeps_the_earlier_epoch():
    batch = rr.Batch(x=torch.zeros(4, 3), y=torch.tensor([0, 0, 0, 1]))
    fitted = rr.fit(
        nn.Linear(3, 2),
        rr.recipes.erm(),
        batch,
        validation=batch,
        epochs=4,
        select="accuracy",
        lr=1.0,
    )
    values = [row["validation"]["accuracy"] for row in fitted.history]
    assert fitted.selection["epoch"] == values.index(max(values)) + 1
    assert values.count(max(values)) > 1


def test_rows_without_validation_have_none():
    batch = rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1]))
    fitted = rr.fit(nn.Linear(3, 2), rr.recipes.erm(), batch, epochs=1)
    assert "validation" not in fitted.history[0]
    assert fitted.history[0]["updates"] == 1


def test_the_model_is_left_in_test_mode():
    batch = rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1]))
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 2))
    rr.fit(model, rr.recipes.erm(), batch, epochs=1)
    assert not any(module.training for module in model.modules())
    assert torch.equal(model(batch.x), model(batch.x))
