"""The tables of the pages on results are those the committed rows give."""

import importlib.util
import json
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


def test_the_attack_is_what_was_measured():
    figures = json.loads((ROOT / "benchmarks" / "results" / "manipulation.json").read_text())
    text = " ".join((ROOT / "docs" / "results" / "alignment.md").read_text().split())
    ce, aligned = figures["CE only"], figures["l2 + cosine"]
    before, after = (f"share of the map on the frame {moment}" for moment in ("before", "after"))
    assert f"on {figures['samples']} test images" in text
    assert f"Of CE's map {100 * ce[before]:.0f} % lie on" in text
    assert f"and {100 * ce[after]:.0f} % after it" in text
    assert f"cosine's {100 * aligned[before]:.0f} % and {100 * aligned[after]:.0f} %" in text
    assert f"{ce['cosine of the maps']:.2f} and {aligned['cosine of the maps']:.2f}" in text
