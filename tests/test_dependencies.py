import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
FLOORS = {
    re.split("[>=]", line)[0]: line.split(">=")[1]
    for line in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
}


def test_the_oldest_versions_are_those_that_are_tested():
    lines = [line for line in (ROOT / "oldest.txt").read_text().splitlines() if "==" in line]
    pinned = dict(line.split("==") for line in lines)
    allowed = {name: floor for name, floor in FLOORS.items() if name != "torch"}
    assert pinned.keys() == allowed.keys()
    for name, floor in allowed.items():
        assert pinned[name].removesuffix(".0") == floor.removesuffix(".0")


def test_torch_is_one_that_runs_no_code_in_files():
    assert tuple(map(int, FLOORS["torch"].split("."))) >= (2, 10)
