"""The documentation is true: its code runs, its links lead somewhere, nothing is left out."""

import contextlib
import io
import json
import re
import shlex
import subprocess
import sys
from inspect import isabstract
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import yaml
from markdown.extensions.toc import slugify
from typer.testing import CliRunner

import rightreasons as rr
from rightreasons import benchmark
from rightreasons.cli.app import app
from rightreasons.cli.listing import catalogue
from rightreasons.datasets.registry import DATASETS
from rightreasons.metrics import METRICS
from rightreasons.models.registry import MODELS
from rightreasons.objectives.recipes import RECIPES
from rightreasons.run.run import Config, train_run

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
NAMES = [str(page.relative_to(DOCS)) for page in PAGES]
LANGUAGES = {"python", "console", "text", "plaintext", "csv", "yaml"}  # text: what was printed

FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run: [^>]*\w[^>]* -->\n\Z")
TOKEN = re.compile(r"\d+\.\d+(?:e-?\d+)?|\w+|[^\w\s]")
KEY = re.compile(r"\b[a-z]+(?:19|20)\d\d[a-z]+\b")
MADE_UP = {"nobody2025example"}
FROM_THE_DATA = {"channels", "classes", "inputs", "size"}  # of a model

pytestmark = [  # on machines with one processor, and on Python 3.12
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def one_thread():
    """So small nets gain nothing by more, and lose much on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    code: str
    line: int
    runs: bool


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(
            language=match["language"],
            code=match["code"],
            line=text.count("\n", 0, match.start()) + 2,
            runs=not NOT_RUN.search(text[: match.start()]),
        )
        for match in FENCE.finditer(text)
    ]


def run_python(block: Block, page: Path, namespace: dict) -> str:
    # as many empty lines before it as the page has, so that a traceback tells the page's line
    source = "\n" * (block.line - 1) + block.code
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(source, str(page), "exec"), namespace)
    return printed.getvalue()


def commands_of(block: Block) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output shown below it."""
    joined = block.code.replace("\\\n", " ")
    parts = re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]
    return [(command, shown) for command, _, shown in (part.partition("\n") for part in parts)]


def run_command(command: str) -> str:
    name, *arguments = shlex.split(command, comments=True)
    assert name == "rightreasons", f"{command!r} cannot be run: say so with <!-- not run: ... -->"
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "100"})
    if isinstance(done.exception, rr.errors.RightReasonsError):
        return f"Error: {done.exception}"  # as `main` prints it
    assert done.exit_code == 0, f"{command}\n{done.output}\n{done.exception!r}"
    return done.output


def alike(shown: str, printed: str) -> bool:
    """Numbers with a decimal point may differ a little from machine to machine, nothing else."""
    if "." in shown and "." in printed and shown != printed:
        with contextlib.suppress(ValueError):
            return float(shown) == pytest.approx(float(printed), rel=0.25, abs=0.1)
    return shown == printed


def found_after(chunk: list[str], printed: list[str], start: int) -> int:
    """Where the first occurrence of ``chunk`` from ``start`` ends; -1 if there is none."""
    for place in range(start, len(printed) - len(chunk) + 1):
        if all(map(alike, chunk, printed[place:])):
            return place + len(chunk)
    return -1


def refuse_other_output(shown: str, printed: str, where: str) -> None:
    """Fail unless what a page shows was printed, in this order; ``…`` stands for anything."""
    place, tokens = 0, TOKEN.findall(printed)
    for chunk in shown.split("…"):
        place = found_after(TOKEN.findall(chunk), tokens, place)
        assert place >= 0, f"{where} shows\n{chunk}\nbut what was printed is\n{printed}"


def test_pages_are_found():
    assert {"index.md", "tutorial.md", "objectives.md"} <= set(NAMES)
    assert len(PAGES) >= 15


@pytest.mark.parametrize("name", NAMES)
def test_what_a_page_shows_is_what_happens(name, tmp_path, monkeypatch):
    page = DOCS / name
    monkeypatch.chdir(tmp_path)
    namespace, printed = {"__name__": "page"}, None
    for block in blocks_of(page):
        where = f"docs/{name}:{block.line}"
        if block.language == "python" and block.runs:
            printed = run_python(block, page, namespace)
        elif block.language == "console" and block.runs:
            for command, shown in commands_of(block):
                refuse_other_output(shown, run_command(command), where)
        elif block.language == "text" and block.runs:
            assert printed is not None, f"{where}: output without code before it"
            refuse_other_output(block.code, printed, where)


@pytest.mark.parametrize("name", NAMES)
def test_every_block_says_what_it_is(name):
    text = (DOCS / name).read_text()
    blocks = blocks_of(DOCS / name)
    assert text.count("```") == 2 * len(blocks)
    assert {block.language for block in blocks} <= LANGUAGES


@pytest.mark.parametrize("shown", ["a 0.45\nc", "a … d", "b", "c 3", ""])
def test_output_that_was_printed_is_accepted(shown):
    refuse_other_output(shown, "a 0.5 c\na b c 3 d", "here")


@pytest.mark.parametrize("shown", ["a 0.9", "c 4", "d … a", "b d", "3.0"])
def test_output_that_was_not_printed_is_refused(shown):
    with pytest.raises(AssertionError, match="here shows"):
        refuse_other_output(shown, "a 0.5 c\na b c 3 d", "here")


def anchors_of(page: Path) -> set[str]:
    prose = FENCE.sub("", page.read_text())
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {slugify(heading.replace("`", ""), "-") for heading in headings}


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name):
    page = DOCS / name
    prose = FENCE.sub("", page.read_text())
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), f"{name}: {link}"
        assert target.is_relative_to(DOCS), f"{name}: {link} is not part of the site"
        assert not anchor or anchor in anchors_of(target), f"{name}: {link}"


def listed_in(nav) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    entries = nav.values() if isinstance(nav, dict) else nav
    return [name for entry in entries for name in listed_in(entry)]


def test_every_page_is_in_the_navigation():
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert sorted(listed_in(config["nav"])) == sorted(NAMES)


def test_the_site_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    done = subprocess.run(
        [*command, "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "index.html").exists()


def page_text(name: str) -> str:
    return (DOCS / name).read_text()


def test_everything_with_a_name_is_listed():
    text = page_text("reference/names.md")
    names = [name for lines in catalogue().values() for name in lines]
    assert not [name for name in names if f"`{name}`" not in text]


@pytest.mark.parametrize("registry", [RECIPES, METRICS, DATASETS, MODELS], ids=lambda r: r.kind)
def test_every_setting_is_listed(registry):
    rows = [line for line in page_text("reference/names.md").splitlines() if line.startswith("|")]
    for name in registry:
        own = " ".join(row for row in rows if f"`{name}`" in row.split("|")[1])
        settings = set(registry.settings(name)) - (FROM_THE_DATA if registry is MODELS else set())
        missing = [setting for setting in sorted(settings) if f"`{setting}`" not in own]
        assert not missing, f"{name}: {missing}"


def test_every_recipe_and_term_is_compared():
    text = page_text("objectives.md")
    assert not [name for name in RECIPES if f"`{name}`" not in text]
    assert not [name for name in terms() if f"`{name}`" not in text]


def test_every_term_and_metric_has_a_unit():
    text = page_text("reference/units.md")
    assert not [name for name in [*terms(), *METRICS] if f"`{name}`" not in text]


def terms() -> list[str]:
    exported = {name: getattr(rr.objectives, name) for name in rr.objectives.__all__}
    return [
        name
        for name, thing in exported.items()
        if isinstance(thing, type) and issubclass(thing, rr.Term) and not isabstract(thing)
    ]


def test_every_error_has_its_remedy():
    text = page_text("reference/errors.md")
    assert not [name for name in rr.errors.__all__ if f"`{name}`" not in text]


def test_every_file_and_key_of_a_run_is_explained(tmp_path):
    config = Config(data="decoy_digits", recipe="r3", model_settings={"hidden": [4]}, epochs=1)
    results = train_run(config, tmp_path, progress=False)
    text = page_text("reference/results.md")
    files = [path.name for path in tmp_path.iterdir()]
    row = json.loads((tmp_path / "log.jsonl").read_text())
    inner = [
        key for part in ("selection", "diagnosis", "training", "card") for key in results[part]
    ]
    assert not [name for name in [*files, *results, *row, *inner] if f"`{name}`" not in text]
    measured = results["metrics"]["test"]
    shape = {re.sub(r"digit \d|(?<=class/)\d", "NAME", key) for key in measured}
    assert not [key for key in shape if f"`{key}`" not in text]


def cited_keys() -> set[str]:
    docstrings = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    references = re.findall(r"References:\n((?: {8}.+\n)+)", docstrings)
    papers = {benchmark.SUITES.create(name).paper for name in benchmark.SUITES}
    pages = "".join(page.read_text() for page in PAGES)
    return {*KEY.findall(" ".join(references)), *papers, *KEY.findall(pages)} - MADE_UP


def test_the_bibliography_has_what_is_cited_and_nothing_else():
    keys = re.findall(r"^@\w+\{([^,]+),$", page_text("bibliography.bib"), re.MULTILINE)
    assert len(keys) == len(set(keys))
    assert set(keys) == cited_keys()
    assert "ross2017right" in keys


def test_the_suite_of_the_page_can_be_built(tmp_path):
    blocks = blocks_of(DOCS / "how-to" / "add-a-suite.md")
    code, figures = (
        next(block.code for block in blocks if block.language == language)
        for language in ("python", "yaml")
    )
    (tmp_path / "tiny.yaml").write_text(figures)
    namespace = {"__name__": "tiny", "__file__": str(tmp_path / "tiny.py")}
    exec(code, namespace)
    suite = namespace["tiny"]()
    assert suite.figures.values["3×3"]["R3"]["worst group"].mean == 0.9
