import io
import multiprocessing
import sys
import threading

import pytest
import torch
from tests.datasets.miniature import WORKER_WARNINGS

from rightreasons.core.progress import map_parallel, progress, read_ahead
from rightreasons.errors import DatasetCorruptError
from rightreasons.types import Batch


def test_what_is_quick_shows_nothing(capsys):
    with progress("working", total=10) as advance:
        for _ in range(10):
            advance(1)
    assert capsys.readouterr() == ("", "")


def test_what_takes_long_shows_a_bar_on_the_error_stream_of_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal, output = Terminal(), io.StringIO()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setattr("rightreasons.core.progress.PATIENCE_SECONDS", -1.0)
    with progress("working hard", total=2) as advance:
        advance(1)
    assert "working hard" in terminal.getvalue()
    assert output.getvalue() == ""


def test_errors_pass_through():
    with pytest.raises(KeyError), progress("working", total=None):
        raise KeyError


pytestmark = WORKER_WARNINGS


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_results_come_in_order(workers, monkeypatch):
    monkeypatch.setattr("rightreasons.core.progress.CHUNK", 20)
    results = map_parallel(lambda item: item**2, 50, workers=workers, description="squaring")
    assert results == [item**2 for item in range(50)]


def test_workers_run_at_the_same_time():
    together = threading.Barrier(2, timeout=20)
    results = map_parallel(lambda _: together.wait(), 2, workers=2, description="meeting")
    assert sorted(results) == [0, 1]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_stops_the_rest(workers):
    seen = []

    def action(item):
        seen.append(item)
        if item == 1:
            raise KeyError(item)

    with pytest.raises(KeyError):
        map_parallel(action, 20_000, workers=workers, description="failing")
    assert len(seen) < 20_000


ROWS = [torch.tensor([3, 1]), torch.tensor([0]), torch.tensor([2, 2, 1])]


def take(rows):
    return Batch(x=rows[:, None].float(), y=rows, index=rows)


def bad_take(rows):
    if 0 in rows:
        raise DatasetCorruptError("row 2, a.png: no such file")
    return take(rows)


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_come_in_order(workers):
    batches = list(read_ahead(take, iter(ROWS), workers=workers))
    assert [batch.index.tolist() for batch in batches] == [rows.tolist() for rows in ROWS]
    assert batches[2].x.tolist() == [[2.0], [2.0], [1.0]]
    assert batches[0].mask is None


@pytest.mark.parametrize("workers", [0, 2])
def test_the_global_random_state_is_left_alone(workers):
    before = torch.get_rng_state()
    list(read_ahead(take, ROWS, workers=workers))
    assert torch.equal(torch.get_rng_state(), before)


def test_workers_end_when_the_iterator_is_closed():
    already = multiprocessing.active_children()
    batches = read_ahead(take, ROWS * 50, workers=2)
    next(batches)
    started = [child for child in multiprocessing.active_children() if child not in already]
    assert len(started) == 2
    batches.close()
    assert not any(child.is_alive() for child in started)


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_keep_their_words(workers):
    batches = read_ahead(bad_take, ROWS, workers=workers)
    next(batches)
    with pytest.raises(DatasetCorruptError, match="^row 2, a.png: no such file$"):
        next(batches)
