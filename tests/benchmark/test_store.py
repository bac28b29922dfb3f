import json

import pytest

from rightreasons.benchmark.store import Row, Store, read_rows
from rightreasons.errors import OutputError, RunNotFoundError

ROW = Row(
    address="abc-def",
    config={"data": "decoy_digits"},
    data_sha256="def0",
    finished="2025-01-01T00:00:00+00:00",
    results={"metrics": {"test": {"accuracy": 0.5}}},
)


def test_rows_come_back_as_they_were(tmp_path):
    store = Store(tmp_path / "deep" / "out")
    assert store.rows() == {}
    store.add(ROW)
    assert store.rows() == {"abc-def": ROW}
    assert read_rows(tmp_path / "deep" / "out") == [ROW]
    assert Store(tmp_path / "deep" / "out").rows() == {"abc-def": ROW}


def test_rows_of_a_later_version_can_be_read(tmp_path):
    Store(tmp_path).add(ROW)
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps({**json.loads(path.read_text()), "weather": "fine"}) + "\n")
    assert read_rows(tmp_path) == [ROW]


def test_a_folder_without_results_is_told(tmp_path):
    with pytest.raises(RunNotFoundError, match="Expected results of a suite in .*no results.jsonl"):
        read_rows(tmp_path)


def test_a_claim_is_for_one_at_a_time(tmp_path):
    first, second = Store(tmp_path), Store(tmp_path)
    with first.claim("abc") as mine, second.claim("abc") as yours, second.claim("xyz") as other:
        assert (mine, yours, other) == (True, False, True)
    with second.claim("abc") as yours:
        assert yours


def test_a_claim_ends_with_an_error(tmp_path):
    store = Store(tmp_path)
    with pytest.raises(ArithmeticError), store.claim("abc"):
        raise ArithmeticError
    with store.claim("abc") as mine:
        assert mine


def test_every_run_has_a_folder(tmp_path):
    assert Store(tmp_path).run_folder("abc") == tmp_path / "runs" / "abc"


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        Store(tmp_path / "file")
