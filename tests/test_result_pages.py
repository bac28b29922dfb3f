"""The tables of the pages on results are those the committed rows give."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "results").glob("*.md"))


def write_tables():
    path = ROOT / "benchmarks" / "write_tables.py"
    spec = importlib.util.spec_from_file_location("write_tables", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tables_are_what_bench_show_prints(page):
    script, text = write_tables(), page.read_text()
    assert script.PLACE.search(text)
    assert script.filled(text) == text, f"run `python benchmarks/write_tables.py {page}`"


def test_there_are_pages():
    assert PAGES
