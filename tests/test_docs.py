"""What the documentation shows is what happens, and all of it can be read."""

import contextlib
import importlib.util
import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import yaml
from markdown.extensions.toc import slugify
from typer.testing import CliRunner

import rightreasons as rr
from rightreasons import benchmark
from rightreasons.cli import app
from rightreasons.run import Config, train_run

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
NAMES = [str(page.relative_to(DOCS)) for page in PAGES]
RUN = [name for name in NAMES if "```" in (DOCS / name).read_text()]
LANGUAGES = {"python", "console", "text", "plaintext", "csv", "yaml"}  # text: what was printed

FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run: [^>]*\w[^>]* -->\n\Z")
TOKEN = re.compile(r"\d+\.\d+(?:e-?\d+)?|\w+|[^\w\s]")
KEY = re.compile(r"\b[a-z]+(?:19|20)\d\d[a-z]+\b")
MADE_UP = {"nobody2025example"}

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]
WIDTHS = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"

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


@pytest.mark.parametrize("name", RUN)
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


def test_every_block_says_what_it_is():
    for name in NAMES:
        blocks = blocks_of(DOCS / name)
        assert (DOCS / name).read_text().count("```") == 2 * len(blocks), name
        assert {block.language for block in blocks} <= LANGUAGES, name


def test_output_is_compared_word_by_word():
    printed = "a 0.5 c\na b c 3 d"
    for shown in ("a 0.45\nc", "a … d", "b", "c 3", ""):
        refuse_other_output(shown, printed, "here")
    for shown in ("a 0.9", "c 4", "d … a", "b d", "3.0"):
        with pytest.raises(AssertionError, match="here shows"):
            refuse_other_output(shown, printed, "here")


def anchors_of(page: Path) -> set[str]:
    prose = FENCE.sub("", page.read_text())
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {slugify(heading.replace("`", ""), "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text())):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        part_of_site = target.is_file() and target.is_relative_to(DOCS)
        if not part_of_site or (anchor and anchor not in anchors_of(target)):
            broken.append(f"{page.relative_to(DOCS)}: {link}")
    return broken


def test_links_lead_somewhere():
    assert not [link for page in PAGES for link in broken_links(page)]


def listed_in(nav) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    entries = nav.values() if isinstance(nav, dict) else nav
    return [name for entry in entries for name in listed_in(entry)]


def test_every_page_is_in_the_navigation():
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    assert sorted(listed_in(config["nav"])) == sorted(NAMES)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built documentation; a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    done = subprocess.run(
        [*command, "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM.exists():
        pytest.skip(f"no Chromium at {CHROMIUM}; install Debian's package chromium")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield chromium
        chromium.close()


def test_the_site_has_all_pages_and_takes_nothing_from_elsewhere(site):
    built = {str(page.relative_to(site)) for page in site.rglob("*.html")}
    assert {name.replace(".md", ".html") for name in NAMES} <= built
    loaded = re.compile(r"<(?:link|script|img)[^>]+(?:href|src)=\"?https?://")
    assert not [page for page in site.rglob("*.html") if loaded.search(page.read_text())]


def test_no_page_scrolls_sideways(site, browser):
    """On a desk and on a telephone; wide tables scroll inside their own frame."""
    page = browser.new_page()
    requests, wide = [], []
    page.on("request", lambda request: requests.append(request.url))
    for path in sorted(site.rglob("*.html")):
        page.set_viewport_size({"width": 1200, "height": 800})
        page.goto(path.as_uri())
        for width in (1200, 400):
            page.set_viewport_size({"width": width, "height": 800})
            content, window = page.evaluate(WIDTHS)
            if content > window:
                wide.append((str(path.relative_to(site)), width, content))
    page.close()
    assert not wide
    assert not [url for url in requests if not url.startswith(("file:", "data:", "blob:"))]


def tool(name: str):
    """A script of the folder tools as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_lists_are_those_the_code_gives():
    lists = tool("write_lists")
    for page in lists.PAGES:
        text = page.read_text()
        assert "<!-- list " in text, page
        assert lists.filled(text) == text, f"{page.name} is old: run `make lists`"


def test_pages_are_in_plain_words():
    prose = tool("check_prose")
    pages = [page for page in [*PAGES, *ROOT.glob("*.md")] if page.parent.name != "results"]
    assert not [finding for page in pages for finding in prose.findings_in(page)]


def test_hard_prose_is_found(tmp_path):
    prose, path = tool("check_prose"), tmp_path / "hard.py"
    sentence = " ".join(["word"] * 31)
    path.write_text(
        f'''"""{sentence.capitalize()}."""
def f(x, y, z):
    """Do it. {" ".join(["`some code`"] * 30)}.

    {" ".join(["Short sentences, e.g. this one."] * 9)}

    .. math:: {sentence}

    Args:
        x: Of the draw.
        y: See `g`.
        z: The rest, see `g`.

    Example:
        >>> # {sentence}
    """
def g():
    """See `f`."""
'''
    )
    found = [(finding.line, finding.reason) for finding in prose.findings_in(path)]
    assert found == [
        (1, "31 words"),
        (10, 'begins with "Of"'),
        (11, 'only "See"'),
        (18, 'only "See"'),
    ]


def page_text(name: str) -> str:
    return (DOCS / name).read_text()


def test_its_step_times_are_those_that_were_measured():
    measured = json.loads((ROOT / "benchmarks" / "results" / "step_time.json").read_text())
    mlp, lenet = (values for name, values in measured.items() if name != "machine")
    text = " ".join(page_text("objectives.md").split())
    assert f"`r3` takes {mlp['r3']:.1f} times a cross-entropy step" in text
    assert f"`ibp_ex` takes {mlp['ibp_ex']:.1f} times, `cert_r4` {mlp['cert_r4']:.1f}" in text
    assert f"ten samples {mlp['rand_r4, 10 samples']:.1f} and" in text
    assert f"ten steps {mlp['adv_r4, 10 steps']:.1f}." in text
    assert f"of 128, `r3` takes {lenet['r3']:.1f} times." in text
    beside = [f"{net['r3 relative to r3 by hand']:.2f}" for net in (mlp, lenet)]
    assert f"needs {beside[0]} and {beside[1]} of its time" in text


def test_every_error_has_its_remedy():
    text = page_text("reference/errors.md")
    assert not [name for name in rr.errors.__all__ if f"`{name}`" not in text]


def test_every_file_and_key_of_a_run_is_explained(tmp_path):
    config = Config(
        data="decoy_digits", recipe="r3", model="mlp", model_settings={"hidden": [4]}, epochs=1
    )
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
    return {*KEY.findall(" ".join(references)), *papers, *KEY.findall(pages)} - {*MADE_UP, ""}


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
