import os
import signal
import threading
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from torch import distributed

from rightreasons.training import distributed as process
from rightreasons.training.distributed import (
    Interrupts,
    agree,
    gather,
    launch_fabric,
    random_state,
    restore_random_state,
    seeded,
)

ALONE = SimpleNamespace(world_size=1, global_rank=0)


def press_ctrl_c():
    signal.raise_signal(signal.SIGINT)


def test_draws_inside_depend_on_the_seed_and_leave_those_outside_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    with seeded(5):
        first = torch.rand(3)
    assert torch.equal(torch.rand(3), expected)
    with seeded(5):
        assert torch.equal(torch.rand(3), first)
    with seeded(6):
        assert not torch.equal(torch.rand(3), first)


def test_draws_outside_are_left_alone_after_an_error():
    before = torch.get_rng_state()
    with pytest.raises(KeyError), seeded(5):
        torch.rand(3)
        raise KeyError
    assert torch.equal(torch.get_rng_state(), before)


def test_random_state_goes_on_where_it_was():
    torch.manual_seed(5)
    state = random_state()
    expected = torch.rand(3)
    torch.rand(7)
    restore_random_state(state)
    assert torch.equal(torch.rand(3), expected)


def test_alone_everything_is_agreed_and_gathered_at_once():
    assert agree(ALONE, True, False) == [True, False]
    assert gather(ALONE, "own") == ["own"]


def test_the_first_ctrl_c_is_noted_and_the_second_acts():
    with Interrupts() as interrupts:
        assert not interrupts.asked
        press_ctrl_c()
        assert interrupts.asked
        with pytest.raises(KeyboardInterrupt):
            press_ctrl_c()


def test_the_handler_before_comes_back():
    noted = []
    before = signal.signal(signal.SIGINT, lambda *_: noted.append("mine"))
    try:
        with Interrupts():
            press_ctrl_c()
        assert noted == []
        with pytest.raises(KeyError), Interrupts():
            raise KeyError
        press_ctrl_c()
        assert noted == ["mine"]
    finally:
        signal.signal(signal.SIGINT, before)


def test_in_another_thread_signals_are_left_alone():
    """Only the main thread may handle them."""
    before, found = signal.getsignal(signal.SIGINT), []

    def work():
        with Interrupts() as interrupts:
            found.append((signal.getsignal(signal.SIGINT), interrupts.asked))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(before, False)]


@pytest.mark.parametrize(("others", "stops"), [(1, True), (0, False)])
def test_one_process_that_was_asked_stops_all(monkeypatch, others, stops):
    """Another process was asked or not; this one was not."""
    monkeypatch.setattr(distributed, "all_reduce", lambda total: total.add_(others))
    several = SimpleNamespace(world_size=2, device=torch.device("cpu"))
    assert agree(several, False, True) == [stops, True]


def test_a_single_process_needs_no_strategy():
    fabric = launch_fabric("cpu", 1, "32-true")
    assert fabric.world_size == 1
    assert fabric.device == torch.device("cpu")
    assert fabric.is_global_zero


@pytest.mark.parametrize(
    ("variables", "devices", "expected"),
    [
        ({}, 1, {"devices": 1, "num_nodes": 1, "strategy": "auto"}),
        ({}, 3, {"devices": 3, "num_nodes": 1, "strategy": "ddp"}),
        (
            {"TORCHELASTIC_RUN_ID": "x", "LOCAL_WORLD_SIZE": "2", "WORLD_SIZE": "6"},
            1,
            {"devices": 2, "num_nodes": 3, "strategy": "ddp"},
        ),
        (
            {"TORCHELASTIC_RUN_ID": "x", "LOCAL_WORLD_SIZE": "1", "WORLD_SIZE": "1"},
            4,
            {"devices": 1, "num_nodes": 1, "strategy": "auto"},
        ),
    ],
    ids=["alone", "several", "torchrun on three nodes", "torchrun alone"],
)
def test_how_processes_are_started(monkeypatch, variables, devices, expected):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with mock.patch.object(process, "Fabric") as fabric:
        made = launch_fabric("cpu", devices, "bf16-mixed")
    settings = fabric.call_args.kwargs
    assert expected.items() <= settings.items()
    assert settings["accelerator"] == "cpu"
    assert settings["precision"] == "bf16-mixed"
    made.launch.assert_called_once_with()
    assert os.environ.get("TORCHELASTIC_RUN_ID") == variables.get("TORCHELASTIC_RUN_ID")
