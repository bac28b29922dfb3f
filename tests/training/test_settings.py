import inspect
from dataclasses import fields

import numpy as np
import pytest
import torch
from torch import nn, optim

import rightreasons as rr
from rightreasons.errors import InvalidSettingError, UnknownNameError
from rightreasons.run.config import Config
from rightreasons.training.settings import (
    OPTIMIZERS,
    SCHEDULERS,
    TrainingSettings,
    make_optimizer,
)


def test_fit_and_runs_have_the_same_settings_and_defaults():
    parameters = inspect.signature(rr.fit).parameters
    config = Config(data="decoy_digits")
    for entry in fields(TrainingSettings):
        assert entry.metadata["help"].endswith(".")
        assert getattr(config, entry.name) == entry.default
        if entry.name != "epochs":  # which `fit` must be given
            assert parameters[entry.name].default == entry.default


@pytest.fixture
def weights():
    return list(nn.Linear(3, 2).parameters())


def created(parameters, optimizer, scheduler, *, lr, num_updates):
    settings = TrainingSettings(optimizer=optimizer, scheduler=scheduler, lr=lr)
    return make_optimizer(parameters, settings, num_updates=num_updates)


def rates(made, num_steps):
    optimizer, scheduler = made
    found = []
    for _ in range(num_steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


@pytest.mark.parametrize(
    ("name", "kind", "settings"),
    [
        ("adam", optim.Adam, {"weight_decay": 0}),
        ("adamw", optim.AdamW, {"weight_decay": 0.01}),
        ("sgd", optim.SGD, {"momentum": 0.9}),
    ],
)
def test_optimizers_by_name(weights, name, kind, settings):
    made, _ = created(weights, name, "constant", lr=0.5, num_updates=3)
    assert type(made) is kind
    (group,) = made.param_groups
    assert group["params"] == weights
    assert group["lr"] == 0.5
    assert settings.items() <= group.items()


def test_every_name_has_a_line():
    assert all(OPTIMIZERS.describe().values())
    assert all(SCHEDULERS.describe().values())
    assert list(OPTIMIZERS) == ["adam", "adamw", "sgd"]
    assert list(SCHEDULERS) == ["constant", "cosine", "step"]


def test_the_cosine_goes_from_the_full_rate_to_zero(weights):
    made = created(weights, "sgd", "cosine", lr=2.0, num_updates=4)
    half = 0.5**0.5
    assert rates(made, 5) == pytest.approx([2.0, 1 + half, 1.0, 1 - half, 0.0])


def test_a_constant_rate_stays(weights):
    made = created(weights, "sgd", "constant", lr=0.1, num_updates=4)
    assert rates(made, 5) == [0.1] * 5


def test_no_updates_are_no_division_by_zero(weights):
    made = created(weights, "sgd", "cosine", lr=0.1, num_updates=0)
    assert rates(made, 2) == pytest.approx([0.1, 0.0])


def test_functions_stand_for_any_other(weights):
    def rmsprop(parameters):
        return optim.RMSprop(parameters, lr=0.3)

    def in_steps(optimizer, num_updates):
        return optim.lr_scheduler.StepLR(optimizer, step_size=num_updates // 2, gamma=0.1)

    made = created(weights, rmsprop, in_steps, lr=99.0, num_updates=4)
    assert type(made[0]) is optim.RMSprop
    assert rates(made, 4) == pytest.approx([0.3, 0.3, 0.03, 0.03])


def test_a_schedule_is_taken_up_where_it_was(weights):
    first = created(weights, "adam", "cosine", lr=1.0, num_updates=10)
    rates(first, 4)
    second = created(weights, "adam", "cosine", lr=1.0, num_updates=10)
    for fresh, used in zip(second, first, strict=True):
        fresh.load_state_dict(used.state_dict())
    assert rates(second, 6) == rates(first, 6)


@pytest.mark.parametrize("lr", [0, -1.0, float("nan")])
def test_refuses_a_rate_that_is_not_positive(lr):
    with pytest.raises(InvalidSettingError, match=r"Expected `lr` above 0, but got .*\(--lr\)"):
        TrainingSettings(lr=lr).checked()


def test_a_float_without_a_fraction_is_a_whole_number():
    settings = TrainingSettings(epochs=3.0, batch_size=np.float64(8), seed=np.int64(1)).checked()
    found = (settings.epochs, settings.batch_size, settings.seed)
    assert found == (3, 8, 1)
    assert all(type(value) is int for value in found)
    with pytest.raises(
        InvalidSettingError, match="`epochs` to be a whole number or None, but got 1.5"
    ):
        TrainingSettings(epochs=1.5).checked()


def test_refuses_a_frozen_model():
    message = r"Expected a model with parameters to train.*Use model.requires_grad_\(\)"
    with pytest.raises(InvalidSettingError, match=message):
        created([], "adam", "cosine", lr=1.0, num_updates=1)


def test_unknown_names(weights):
    with pytest.raises(UnknownNameError, match="got 'adma'. Did you mean 'adam'"):
        created(weights, "adma", "cosine", lr=1.0, num_updates=1)
    with pytest.raises(UnknownNameError, match="got 'cosin'. Did you mean 'cosine'"):
        created(weights, "adam", "cosin", lr=1.0, num_updates=1)


def test_sgd_has_momentum():
    """Two steps along the same gradient: the second is 1.9 times the first."""
    weight = torch.zeros(1, requires_grad=True)
    optimizer = OPTIMIZERS.create("sgd", [weight], lr=1.0)
    weight.grad = torch.ones(1)
    optimizer.step()
    optimizer.step()
    assert weight.item() == pytest.approx(-2.9)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"epochs": 6}, [1.0, 1.0, 0.1, 0.1, 0.01, 0.01]),
        ({"epochs": 6, "step_epochs": 3, "step_factor": 0.5}, [1.0, 1.0, 1.0, 0.5, 0.5, 0.5]),
        ({"epochs": 3, "step_epochs": 1}, [1.0, 1.0, 0.1, 0.1, 0.01, 0.01]),
        ({"epochs": 6, "milestones": "2,5"}, [1.0, 1.0, 0.1, 0.1, 0.1, 0.01]),
    ],
)
def test_a_step_schedule_steps_after_whole_epochs(weights, settings, expected):
    chosen = TrainingSettings(optimizer="sgd", scheduler="step", lr=1.0, **settings)
    assert rates(make_optimizer(weights, chosen, num_updates=6), 6) == pytest.approx(expected)


def test_momentum_and_weight_decay_are_those_that_were_asked_for(weights):
    for name, more in (("sgd", {"momentum": 0.5}), ("adam", {}), ("adamw", {})):
        settings = TrainingSettings(optimizer=name, weight_decay=0.3, **more)
        (group,) = make_optimizer(weights, settings, num_updates=1)[0].param_groups
        assert {"weight_decay": 0.3, **more}.items() <= group.items()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"momentum": 0.5}, "`optimizer` to be sgd beside `momentum`, but got 'adam'"),
        ({"step_epochs": 2}, "`scheduler` to be step beside `step_epochs`, but got 'cosine'"),
        ({"milestones": "3,2", "scheduler": "step"}, r"growing numbers .* but got '3,2'"),
        ({"milestones": "x", "scheduler": "step"}, r"growing numbers .* but got 'x'"),
        ({"milestones": "2"}, "`scheduler` to be step beside `milestones`, but got 'cosine'"),
        (
            {"milestones": "2", "step_epochs": 1, "scheduler": "step"},
            "`step_epochs` or `milestones`, but got 1 and 2",
        ),
        ({"weight_decay": -1.0}, r"`weight_decay` from 0, but got -1.0.*--weight-decay"),
        ({"body_lr": 0.0}, r"`body_lr` above 0, but got 0.0.*--body-lr"),
        ({"body_lr": 0.1, "optimizer": optim.SGD}, "a named optimizer beside `body_lr`"),
    ],
)
def test_settings_that_nothing_reads_are_refused(settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        TrainingSettings(**settings).checked()


@pytest.mark.parametrize(
    ("num_samples", "batch_size", "epochs"),
    [(1, 32, 100), (200, 32, 100), (1000, 32, 32), (2000, 64, 32), (60_000, 128, 10)],
)
def test_batches_and_epochs_suit_the_number_of_samples(num_samples, batch_size, epochs):
    chosen = TrainingSettings().for_samples(num_samples)
    assert (chosen.batch_size, chosen.epochs) == (batch_size, epochs)
    given = TrainingSettings(epochs=3, batch_size=7)
    assert given.for_samples(num_samples) == given
