import csv

from rightreasons.annotators import Suggestion
from rightreasons.annotators.next_image import suggestion_rows, write_rows


def test_rows_are_written_as_csv(make_squares, tmp_path):
    rows = suggestion_rows(make_squares(), [Suggestion(7, 0.5), Suggestion(2, 0.25)])
    path = tmp_path / "new" / "next.csv"
    write_rows(path, rows)
    read = list(csv.DictReader(path.read_text().splitlines()))
    assert read == [
        {"index": "7", "file": "", "uncertainty": "0.5"},
        {"index": "2", "file": "", "uncertainty": "0.25"},
    ]
