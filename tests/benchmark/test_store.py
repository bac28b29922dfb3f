import json
import logging
import threading
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from rightreasons.benchmark.plan import list_lines
from rightreasons.benchmark.store import Journal, Row, Store, merge_stores, read_rows
from rightreasons.cli import app
from rightreasons.errors import InvalidSettingError, OutputError, RunNotFoundError


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "lines.jsonl")


def test_what_is_appended_is_there_in_order(journal):
    assert journal.entries() == []
    journal.append({"number": 1})
    journal.append({"number": 2, "words": "a\nb ±"})
    assert journal.entries() == [{"number": 1}, {"number": 2, "words": "a\nb ±"}]
    assert len(journal.path.read_bytes().splitlines()) == 2


@pytest.mark.parametrize("torn", [b'{"number": 2, "wor', b"\xff\x00", b"{"])
def test_a_torn_last_line_is_skipped_and_cut_off_by_the_next_writer(journal, torn):
    journal.append({"number": 1})
    with journal.path.open("ab") as file:
        file.write(torn)
    assert journal.entries() == [{"number": 1}]
    journal.append({"number": 3})
    assert journal.entries() == [{"number": 1}, {"number": 3}]
    assert journal.path.read_bytes() == b'{"number": 1}\n{"number": 3}\n'


def test_a_torn_only_line_is_cut_off(journal):
    journal.path.write_bytes(b'{"numb')
    assert journal.entries() == []
    journal.append({"number": 1})
    assert journal.path.read_bytes() == b'{"number": 1}\n'


def test_a_damaged_line_in_the_middle_is_told_and_skipped(journal, caplog):
    journal.path.write_bytes(b'{"number": 1}\noops\n[3]\n{"number": 4}\n')
    with caplog.at_level(logging.WARNING, logger="rightreasons"):
        assert journal.entries() == [{"number": 1}, {"number": 4}]
    assert [record.getMessage().split(" of ")[0] for record in caplog.records] == [
        "Line 2",
        "Line 3",
    ]
    assert "is damaged and does not count" in caplog.text


def test_writers_at_once_lose_nothing(journal):
    def write(writer):
        for number in range(25):
            Journal(journal.path).append({"writer": writer, "number": number, "pad": "x" * 5000})

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = [(entry["writer"], entry["number"]) for entry in journal.entries()]
    assert sorted(seen) == [(writer, number) for writer in range(4) for number in range(25)]


def test_numbers_json_does_not_have_are_refused(journal):
    with pytest.raises(ValueError, match="not JSON compliant"):
        journal.append({"number": float("nan")})
    assert journal.entries() == []


def test_a_file_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match="Expected to append to .*folder, but it cannot be writ"):
        Journal(tmp_path / "folder").append({})


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


@pytest.fixture
def machines(tmp_path, make_suite, make_row):
    """Folders of two machines that share one of three cells, and the rows of these."""
    lines = list_lines(make_suite(), "small")
    cells = [lines[0].cell(0, 0), lines[0].cell(1, 0), lines[1].cell(0, 0)]
    rows = [make_row(cell, accuracy=0.5 + number / 8) for number, cell in enumerate(cells)]
    for name, some in (("one", rows[:2]), ("two", rows[1:])):
        store = Store(tmp_path / name)
        for row in some:
            store.add(row)
            folder = store.run_folder(row.address) / "stage-1"
            folder.mkdir(parents=True)
            (folder / "log.jsonl").write_text(name)
            (folder / "checkpoint.pt").write_text("large")
    return tmp_path / "one", tmp_path / "two", rows


def files_below(folder):
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}


def test_stores_of_two_machines_are_joined(machines, tmp_path):
    one, two, rows = machines
    out = tmp_path / "out"
    assert merge_stores([one, two], out) == rows
    assert read_rows(out) == rows
    places = [f"{row.address}/stage-1/log.jsonl" for row in rows]
    assert files_below(out / "runs") == dict(zip(places, ("one", "one", "two"), strict=True))
    assert merge_stores([one, two], out) == []
    assert merge_stores([two], one) == rows[2:]  # into one of them
    assert read_rows(one) == rows
    told = CliRunner().invoke(app, ["bench", "merge", str(one), str(two), "--out", str(out)])
    assert told.output.split() == ["new", "rows", "all", "rows", "0", "3"]


def test_rows_that_differ_by_rounding_agree(machines, tmp_path):
    one, two, rows = machines
    metrics = {"test": {"accuracy": 0.625 * (1 + 1e-8)}, "validation": {}}
    near = replace(rows[1], results={**rows[1].results, "metrics": metrics})
    Store(tmp_path / "three").add(near)
    assert merge_stores([one, tmp_path / "three"], tmp_path / "out") == rows[:2]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"results": {"metrics": {"test": {"accuracy": 0.75}}}},
            "accuracy .test. is 0.625 and",
        ),
        ({"failure": "inf", "results": {}}, "one of the two failed"),
        ({"data_sha256": "e" * 64, "address": "other"}, "the data of the same settings differ"),
    ],
)
def test_rows_that_contradict_each_other_are_refused_by_name(machines, tmp_path, change, words):
    one, two, rows = machines
    wrong = replace(rows[1], **change)
    Store(tmp_path / "three").add(wrong)
    named = rf"{wrong.address} \(decoy_digits, .*seed 0\): .*{words}.*, in .*one and in .*three"
    with pytest.raises(InvalidSettingError, match=named):
        merge_stores([one, tmp_path / "three"], tmp_path / "out")
    assert not (tmp_path / "out" / "results.jsonl").exists()


def test_a_cell_that_runs_is_not_merged_over(machines, tmp_path):
    one, _, rows = machines
    with (
        Store(tmp_path / "out").claim(rows[0].address),
        pytest.raises(OutputError, match="another process runs it there"),
    ):
        merge_stores([one], tmp_path / "out")
