import numpy as np
import pytest

from rightreasons.annotators.predicted_masks import cached_rows

ROWS = np.arange(6, dtype=np.uint8).reshape(2, 3)
KEYS = {"annotator": "a" * 64, "data": "d" * 64, "shape": (2, 3)}


def refuse():
    raise AssertionError("predicted again")


def test_predicted_once(tmp_path):
    folder = tmp_path / "new"
    assert np.array_equal(cached_rows(folder, **KEYS, make=lambda: ROWS), ROWS)
    assert [path.name for path in folder.iterdir()] == [f"masks-{'a' * 12}-{'d' * 12}.npz"]
    assert np.array_equal(cached_rows(folder, **KEYS, make=refuse), ROWS)
    other = cached_rows(folder, **{**KEYS, "annotator": "b" * 64}, make=lambda: ROWS + 1)
    assert np.array_equal(other, ROWS + 1)
    assert np.array_equal(cached_rows(folder, **KEYS, make=refuse), ROWS)


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "packing", "other hash", "other shape"])
def test_damaged_or_other_files_are_made_anew(tmp_path, damage, caplog):
    cached_rows(tmp_path, **KEYS, make=lambda: ROWS)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    keys = dict(KEYS)
    if damage == "other hash":  # with the same first letters
        keys["data"] = "d" * 12 + "e" * 52
    elif damage == "other shape":
        np.savez(path, rows=ROWS[:1], annotator=KEYS["annotator"], data=KEYS["data"])
    elif damage == "packing":  # the first packed byte; before it, 30 bytes, a name, an extra field
        start = 30 + int.from_bytes(whole[26:28], "little") + int.from_bytes(whole[28:30], "little")
        path.write_bytes(whole[:start] + b"\xff" + whole[start + 1 :])
    else:
        path.write_bytes({"cut": whole[: len(whole) // 2], "empty": b"", "text": b"hello"}[damage])
    assert np.array_equal(cached_rows(tmp_path, **keys, make=lambda: ROWS + 1), ROWS + 1)
    assert "are damaged or of other data: predicted anew" in caplog.text
    assert np.array_equal(cached_rows(tmp_path, **keys, make=refuse), ROWS + 1)
