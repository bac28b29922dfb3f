import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rightreasons.benchmark.runner import DataShelf
from rightreasons.benchmark.store import Journal
from rightreasons.datasets import InMemory, Splits
from rightreasons.run.run import Config
from rightreasons.types import Batch

CONFIG = Config(data="decoy_digits")


@pytest.fixture
def loads(monkeypatch):
    """Replaces loading by reading a number from data_dir; remembers every load."""
    seen = []

    def load_data(config):
        seen.append((config.data_dir, config.seed))
        number = float(Path(config.data_dir, "number").read_text())
        part = InMemory(Batch(x=torch.full((2, 1), number + config.seed), y=torch.tensor([0, 1])))
        return Splits(part, None, part)

    monkeypatch.setattr(Config, "load_data", load_data)
    return seen


@pytest.fixture
def data_dir(tmp_path):
    folder = tmp_path / "data"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "note").write_text("")
    (folder / "number").write_text("1")
    return folder


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "data.jsonl")


def test_data_are_loaded_once_while_in_use(loads, data_dir, journal):
    shelf = DataShelf(data_dir, journal)
    data = shelf.load(CONFIG)
    assert shelf.load(replace(CONFIG, recipe="r3")) is data
    assert shelf.digest(CONFIG) == data.digest()
    assert loads == [(str(data_dir), 0)]


def test_one_data_set_is_held_at_a_time(loads, data_dir, journal):
    shelf = DataShelf(data_dir, journal)
    for seed in (0, 1, 0):
        shelf.load(replace(CONFIG, seed=seed))
    assert [seed for _, seed in loads] == [0, 1, 0]
    assert len(journal.entries()) == 2


def test_hashes_are_known_without_loading(loads, data_dir, journal):
    digest = DataShelf(data_dir, journal).digest(CONFIG)
    later = DataShelf(data_dir, journal)
    assert later.digest(CONFIG) == digest
    assert len(loads) == 1


@pytest.mark.parametrize("what", ["content", "time", "new file", "removed file", "moved"])
def test_a_change_of_the_files_is_noticed(loads, data_dir, journal, what):
    digest = DataShelf(data_dir, journal).digest(CONFIG)
    if what == "content":
        (data_dir / "number").write_text("22")
    elif what == "time":
        os.utime(data_dir / "number", ns=(1, 1))
    elif what == "new file":
        (data_dir / "deep" / "more").write_text("")
    elif what == "removed file":
        (data_dir / "deep" / "note").unlink()
    else:
        data_dir = data_dir.rename(data_dir.with_name("elsewhere"))
    later = DataShelf(data_dir, journal)
    assert (later.digest(CONFIG) != digest) == (what == "content")
    assert len(loads) == (1 if what == "moved" else 2)


def test_links_to_nothing_do_no_harm(loads, data_dir, journal):
    (data_dir / "link").symlink_to(data_dir / "nothing")
    assert DataShelf(data_dir, journal).digest(CONFIG)


def test_what_is_loaded_has_the_last_word(loads, data_dir, journal):
    shelf = DataShelf(data_dir, journal)
    digest = shelf.digest(CONFIG)
    shelf = DataShelf(data_dir, journal)
    (data_dir / "number").write_text("22")  # while the sweep is under way
    assert shelf.digest(CONFIG) == digest
    assert shelf.load(CONFIG).digest() == shelf.digest(CONFIG) != digest


def test_data_that_need_no_files(tmp_path):
    shelf = DataShelf(None, Journal(tmp_path / "data.jsonl"))
    assert shelf.digest(CONFIG) == CONFIG.load_data().digest()
