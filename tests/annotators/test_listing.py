import csv

import numpy as np

from rightreasons.annotators import Suggestion, annotate_rest
from rightreasons.annotators.listing import suggestion_rows, write_masks, write_rows


def test_rows_are_written_as_csv(make_squares, tmp_path):
    rows = suggestion_rows(make_squares(), [Suggestion(7, 0.5), Suggestion(2, 0.25)])
    path = tmp_path / "new" / "next.csv"
    write_rows(path, rows)
    read = list(csv.DictReader(path.read_text().splitlines()))
    assert read == [
        {"index": "7", "file": "", "uncertainty": "0.5"},
        {"index": "2", "file": "", "uncertainty": "0.25"},
    ]


def test_all_masks_are_written(fitted, tmp_path):
    annotator, data = fitted
    filled = annotate_rest(data, annotator=annotator)
    write_masks(tmp_path / "masks.npz", filled)
    with np.load(tmp_path / "masks.npz") as kept:
        assert sorted(kept) == ["annotated", "mask"]
        assert kept["mask"].shape == (24, 8, 8)
        assert np.abs(kept["mask"] / 255 - filled.batch.mask[:, 0].numpy()).max() < 0.003
        assert np.array_equal(kept["annotated"], data.batch.annotated.numpy())
