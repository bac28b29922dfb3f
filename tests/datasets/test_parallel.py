import threading

import pytest

from rightreasons.datasets.parallel import map_parallel


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_results_come_in_order(workers, monkeypatch):
    monkeypatch.setattr("rightreasons.datasets.parallel.CHUNK", 20)
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
