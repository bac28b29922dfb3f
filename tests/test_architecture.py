"""The house as design has it: imports climb, names are exported, every file has its test."""

import ast
import importlib
from pathlib import Path

import pytest

from rightreasons.cli.listing import catalogue

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "rightreasons"
FILES = sorted(path for path in SOURCE.rglob("*.py"))

# Imports go to a lower step only, or stay within a folder; the modules of `train` are one step.
LADDER = [
    {"errors"},
    {"registry", "sample_noise", "setting", "target", "types", "checkpoint", "double_backward"},
    {"bounds", "datasets", "mode", "models", "norm", "recording"},
    {"fold"},
    {"entry"},
    {"inside"},
    {"probe"},
    {"explainers", "start_points"},
    {"attacks"},
    {"objectives", "metrics"},
    {"selective"},
    {
        "diagnosis",
        "epoch",
        "evaluation",
        "optimization",
        "process",
        "schedule",
        "train",
        "training",
        "training_log",
        "watch",
    },
    {"annotators"},
    {"strategies"},
    {"certification", "config", "examples"},
    {"run"},
    {"benchmark"},
    {"report"},
    {"abstention", "explanation"},
    {"cli_setting"},
    {"catalogue", "cli_annotate", "cli_certify", "cli_explain", "cli_selective", "demo"},
    {"cli", "__init__"},
]
STEPS = {unit: number for number, units in enumerate(LADDER) for unit in units}
TRAIN = next(units for units in LADDER if "train" in units)


def unit_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_units(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "rightreasons":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rightreasons."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.ImportFrom) and node.level:
            pytest.fail(f"{path}: relative import; name the module in full")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_climb_the_ladder(path):
    unit = unit_of(path)
    for other in imported_units(path):
        together = unit == other or (unit in TRAIN and other in TRAIN)
        assert together or STEPS[other] < STEPS[unit], f"{path}: {unit} imports {other}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_exports_are_explicit_sorted_and_there(path):
    name = ".".join(("rightreasons", *path.relative_to(SOURCE).with_suffix("").parts))
    module = importlib.import_module(name.removesuffix(".__init__"))
    exported = list(module.__all__)
    constants_first = sorted(exported, key=lambda n: (not n.isupper(), not n[0].isupper(), n))
    assert exported in (constants_first, sorted(exported))
    assert len(exported) == len(set(exported))
    assert all(hasattr(module, name) for name in exported)


def test_folders_export_what_their_index_imports():
    for path in FILES:
        if path.name == "__init__.py":
            imports = [n for n in ast.parse(path.read_text()).body if isinstance(n, ast.ImportFrom)]
            imported = {alias.asname or alias.name for node in imports for alias in node.names}
            name = ".".join(("rightreasons", *path.relative_to(SOURCE).parent.parts))
            assert set(importlib.import_module(name).__all__) <= imported, name


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_file_has_its_test(path):
    if path.name == "__init__.py":
        assert not any(
            isinstance(node, ast.FunctionDef | ast.ClassDef)
            for node in ast.parse(path.read_text()).body
        )
        return
    relative = path.relative_to(SOURCE)
    assert (ROOT / "tests" / relative.parent / f"test_{path.name}").exists()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_are_short_and_have_no_assert_or_print(path):
    text = path.read_text()
    assert text.count("\n") <= 300
    for node in ast.walk(ast.parse(text)):
        assert not isinstance(node, ast.Assert)
        called = getattr(node, "func", None)
        assert not (isinstance(called, ast.Name) and called.id == "print")


def test_everything_named_is_in_the_contents():
    contents = (ROOT / "CONTENTS.md").read_text()
    missing = [
        name for lines in catalogue().values() for name in lines if f"`{name}`" not in contents
    ]
    assert not missing


def test_every_file_the_contents_name_exists():
    contents = (ROOT / "CONTENTS.md").read_text()
    named = {word.strip("`") for word in contents.split() if word.strip("`").endswith(".py")}
    assert named
    assert not [name for name in named if not (SOURCE / name).exists()]
