import os
import pickle

import numpy as np
import pytest

from rightreasons.datasets.images.files import read_pickled_arrays
from rightreasons.errors import DatasetCorruptError

ARRAYS = {"a": np.arange(6).reshape(2, 3) > 2, "b": np.ones((3, 2, 2), order="F")}


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_of_every_protocol(tmp_path, protocol):
    path = tmp_path / "arrays.pyu"
    path.write_bytes(pickle.dumps(ARRAYS, protocol=protocol))
    found = read_pickled_arrays(path)
    assert found.keys() == ARRAYS.keys()
    assert all(np.array_equal(found[name], array) for name, array in ARRAYS.items())


def test_old_numpy_names_are_known(tmp_path):
    path = tmp_path / "arrays.pyu"
    content = pickle.dumps(ARRAYS, protocol=2)
    path.write_bytes(content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    assert read_pickled_arrays(path)["a"].sum() == 3


class Command:
    def __reduce__(self):
        return os.mkdir, ("made by a pickle",)


def test_code_is_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "arrays.pyu"
    path.write_bytes(pickle.dumps({"a": Command()}))
    with pytest.raises(
        DatasetCorruptError, match=r"it wants \w+.mkdir, which is no part of an arr"
    ):
        read_pickled_arrays(path)
    assert os.listdir(tmp_path) == ["arrays.pyu"]


@pytest.mark.parametrize("content", [[1, 2], {"a": 1}, {1: np.zeros(2)}])
def test_other_things(tmp_path, content):
    path = tmp_path / "arrays.pyu"
    path.write_bytes(pickle.dumps(content))
    with pytest.raises(
        DatasetCorruptError, match="a pickled dictionary of arrays by name, but got"
    ):
        read_pickled_arrays(path)


def test_damaged_files(tmp_path):
    path = tmp_path / "arrays.pyu"
    path.write_bytes(pickle.dumps(ARRAYS)[:-20])
    with pytest.raises(DatasetCorruptError, match="a pickled dictionary of arrays, but got: "):
        read_pickled_arrays(path)
