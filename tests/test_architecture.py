"""The house as its design has it; each test lists the offenders."""

import ast
import importlib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "rightreasons"
FILES = sorted(SOURCE.rglob("*.py"))
MOST_FILES, MOST_LINES = 349, 250

# Imports go to a lower step only, or stay within a package.
LADDER = [
    {"errors"},
    {"types"},
    {"core"},
    {"bounds"},
    {"probe"},
    {"datasets", "models"},
    {"explainers"},
    {"attacks"},
    {"objectives", "metrics"},
    {"training"},
    {"annotators"},
    {"strategies"},
    {"certification"},
    {"audit"},
    {"run"},
    {"integrations", "benchmark"},
    {"report"},
    {"web", "cli"},
    {"__init__"},
]
STEPS = {package: number for number, packages in enumerate(LADDER) for package in packages}


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_packages(tree: ast.AST) -> set[str]:
    packages: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            packages.add("a relative import")
        elif isinstance(node, ast.ImportFrom) and node.module == "rightreasons":
            packages |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("rightreasons."):
            packages.add(str(node.module).split(".")[1])
    return packages


def code_lines(text: str, tree: ast.AST) -> int:
    """Lines with code: neither blank, nor a comment, nor a docstring."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    lines = {n for n, line in enumerate(text.splitlines(), 1) if line.strip()}
    lines -= {n for n, line in enumerate(text.splitlines(), 1) if line.strip().startswith("#")}
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def test_imports_climb_the_ladder():
    offenders = []
    for path in FILES:
        package = package_of(path)
        for other in sorted(imported_packages(ast.parse(path.read_text())) - {package}):
            if STEPS.get(other, len(LADDER)) >= STEPS[package]:
                offenders.append(f"{path.relative_to(SOURCE)} imports {other}")
    assert not offenders


def test_the_tree_is_small():
    modules = {path.stem for path in SOURCE.glob("*.py")}
    assert modules == {"__init__", "errors", "types"}
    assert len(FILES) <= MOST_FILES
    offenders = []
    for path in FILES:
        text = path.read_text()
        tree = ast.parse(text)
        if code_lines(text, tree) > MOST_LINES:
            offenders.append(f"{path.relative_to(SOURCE)}: over {MOST_LINES} lines of code")
        for node in ast.walk(tree):
            called = getattr(node, "func", None)
            if isinstance(node, ast.Assert) or (
                isinstance(called, ast.Name) and called.id == "print"
            ):
                offenders.append(f"{path.relative_to(SOURCE)}:{node.lineno}: assert or print")
    assert not offenders


def test_exports_are_explicit_sorted_and_there():
    offenders = []
    for path in FILES:
        parts = path.relative_to(SOURCE).with_suffix("").parts
        module = importlib.import_module(
            ".".join(("rightreasons", *parts)).removesuffix(".__init__")
        )
        exported = list(module.__all__)
        by_kind = sorted(
            exported, key=lambda name: (not name.isupper(), not name[0].isupper(), name)
        )
        missing = [name for name in exported if not hasattr(module, name)]
        unsorted = exported not in (by_kind, sorted(exported)) or len(exported) != len(
            set(exported)
        )
        if missing or unsorted:
            offenders.append(f"{path.relative_to(SOURCE)}: {missing or 'not sorted'}")
        if path.name == "__init__.py":
            body = ast.parse(path.read_text()).body
            imported = {
                name
                for node in body
                if isinstance(node, ast.ImportFrom)
                for alias in node.names
                for name in (
                    importlib.import_module(node.module).__all__
                    if alias.name == "*"
                    else [alias.asname or alias.name]
                )
            }
            defined = [n for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
            if defined or not set(exported) <= imported:
                offenders.append(f"{path.relative_to(SOURCE)}: an index imports and exports only")
    assert not offenders


def test_every_package_has_its_tests():
    packages = [path for path in SOURCE.iterdir() if (path / "__init__.py").exists()]
    without = [
        package.name
        for package in packages
        if not list((ROOT / "tests" / package.name).glob("test_*.py"))
    ]
    assert not without
