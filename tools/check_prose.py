"""List prose that is hard to read; exit with 1 when there is any.

Three checks over every docstring below ``src`` and every page of the documentation:

- a sentence, an argument's description or a command's help that begins with "Of";
- "See `X.y`." as a whole docstring or as an argument's whole description;
- a sentence of more than 30 words. Code in backticks and mathematics count as one word each.

Code blocks, doctests, mathematics, tables, headings and ``References:`` are not read. Usage::

    python tools/check_prose.py [--count] [PATH ...]
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
MOST_WORDS = 30
# What may stay, as (path below the root, the first words of the sentence), each with a reason.
ALLOWED: set[tuple[str, str]] = set()

UNREAD_PAGES = ROOT / "docs" / "results"  # their sentences are filled in from rows
SECTION = re.compile(r"[A-Z][A-Za-z ]+:$")
UNREAD = {"References:", "Example:", "Examples:"}
ARGUMENT = re.compile(r"[*\w`./-]+(?:, [*\w`./-]+)*(?: \([^)]*\))?:\s+(?=\S)")
BULLET = re.compile(r"(?:[-*+•]|\d+[.)])\s+")
TABLE = re.compile(r"^(?:\||[=+-]{3,}[=+ -]*$)")
BORDER = re.compile(r"={3,}(?: +={3,})+$")
CODE = re.compile(r":\w+:`[^`]*`|``.+?``|`[^`]+`")
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|et al|cf|vs|Fig|Eq|Sec|Tab|App|No|approx|resp)\.")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_]*[A-Z0-9§])")
SEE = re.compile(r"See (?::\w+:)?`[^`]+`(?:,? (?:and )?(?::\w+:)?`[^`]+`)*\.?$")


class Piece(NamedTuple):
    """A paragraph, an item of a list or an argument's description."""

    line: int
    text: str
    kind: str


class Finding(NamedTuple):
    """What is hard to read, and where."""

    path: Path
    line: int
    reason: str
    text: str


def indent_of(line: str) -> int:
    """The number of blanks that a line begins with."""
    return len(line) - len(line.lstrip())


def pieces_of(text: str, first: int) -> list[Piece]:
    """The paragraphs, list items and arguments of a docstring that begins on line ``first``."""
    pieces: list[Piece] = []
    section, skipped, open_piece, in_table = "", -1, False, False
    lines = text.expandtabs().split("\n")
    margin = min((indent_of(line) for line in lines[1:] if line.strip()), default=0)
    for offset, raw in enumerate(lines):
        line = raw.strip() if offset == 0 else raw[margin:].rstrip()
        indent, words = indent_of(line), line.strip()
        if BORDER.fullmatch(words):  # the last border of a table comes before a blank line
            in_table = offset + 1 < len(lines) and bool(lines[offset + 1].strip())
        if not words or in_table:
            open_piece = False
            continue
        if skipped >= 0 and indent > skipped:
            continue
        skipped = -1
        if indent == 0:
            section = words if SECTION.fullmatch(words) else ""
            if section:
                skipped, open_piece = (0 if section in UNREAD else -1), False
                continue
        if words.startswith((">>>", "..", "```")) or TABLE.match(words):
            skipped, open_piece = indent if words.startswith("..") else -1, False
            continue
        if words.endswith("::"):
            skipped = indent
        kind, start = "paragraph", not open_piece
        bullet = BULLET.match(words)
        argument = ARGUMENT.match(words) if section and indent <= 4 else None
        if bullet:
            kind, words, start = "item", words[bullet.end() :], True
        elif argument:
            kind, words, start = "argument", words[argument.end() :], True
        if start:
            pieces.append(Piece(first + offset, words, kind))
        else:
            pieces[-1] = pieces[-1]._replace(text=f"{pieces[-1].text} {words}")
        open_piece = True
    return pieces


def sentences_of(text: str) -> Iterator[str]:
    """The sentences of a piece, each piece of code replaced by one word."""
    plain = CODE.sub("Code", text)
    plain = ABBREVIATION.sub(lambda found: found[0].replace(".", ""), plain)
    yield from (part.strip() for part in SENTENCE_END.split(plain) if part.strip())


def words_in(sentence: str) -> int:
    """The number of words, signs by themselves left out."""
    return sum(any(sign.isalnum() for sign in word) for word in sentence.split())


def problems_of(text: str, first: int) -> Iterator[tuple[int, str, str]]:
    """Line, reason and text of each problem of one docstring."""
    for piece in pieces_of(text, first):
        if SEE.fullmatch(piece.text) and (piece.kind == "argument" or piece.text == text.strip()):
            yield piece.line, 'only "See"', piece.text
        for sentence in sentences_of(piece.text):
            if re.match(r"[\"'(]*Of\b", sentence):
                yield piece.line, 'begins with "Of"', sentence
            if words_in(sentence) > MOST_WORDS:
                yield piece.line, f"{words_in(sentence)} words", sentence


def texts_in(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of everything a file says to people."""
    if path.suffix == ".py":
        yield from texts_of(ast.parse(path.read_text()))
        return
    page = re.sub(r"<!--.*?-->", blank, path.read_text(), flags=re.DOTALL)
    page = re.sub(r"^```.*?^```$", blank, page, flags=re.DOTALL | re.MULTILINE)
    page = re.sub(r"^#+ .*$", "", page, flags=re.MULTILINE)
    yield 1, re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", page)


def blank(found: re.Match[str]) -> str:
    """As many line ends as were found, so that lines keep their numbers."""
    return "\n" * found[0].count("\n")


def texts_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring and each help text."""
    for node in ast.walk(tree):  # expressions: docstrings, those of attributes too
        documents = isinstance(node, ast.Expr)
        documents |= isinstance(node, ast.keyword) and node.arg == "help"
        value = getattr(node, "value", None)
        if documents and isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.lineno, value.value


def findings_in(path: Path) -> Iterator[Finding]:
    """What is hard to read in one file, in the order of its lines."""
    name = path.resolve().relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)
    found = [
        Finding(Path(name), *problem)
        for line, text in texts_in(path)
        for problem in problems_of(text, line)
    ]
    for finding in sorted(found, key=lambda finding: finding.line):
        if not any(name == file and finding.text.startswith(start) for file, start in ALLOWED):
            yield finding


def package_of(path: Path) -> str:
    """The package a file is counted under: its folder below ``src/rightreasons``."""
    parts = path.parts[path.parts.index("rightreasons") + 1 : -1] if "src" in path.parts else ()
    return parts[0] if parts else "(root)" if "src" in path.parts else path.parts[0]


def main() -> int:
    """Print what was found; 1 when there was anything."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "paths", nargs="*", type=Path, help="Files or folders; src and the pages by default."
    )
    parser.add_argument("--count", action="store_true", help="Print a count for each package.")
    options = parser.parse_args()
    paths = [path.resolve() for path in options.paths]
    paths = paths or [ROOT / "src", ROOT / "docs", *ROOT.glob("*.md")]
    files = sorted(
        file
        for path in paths
        for file in ([path] if path.is_file() else path.rglob("*.*"))
        if file.suffix in {".py", ".md"} and file.parent != UNREAD_PAGES
    )
    found = [finding for file in files for finding in findings_in(file)]
    if options.count:
        for package, count in sorted(Counter(package_of(item.path) for item in found).items()):
            print(f"{count:5d} {package}")
        print(f"{len(found):5d} in all")
    else:
        for item in found:
            print(f"{item.path}:{item.line}: {item.reason}: {item.text}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
