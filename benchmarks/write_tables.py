"""Fill the kept results into the pages on results.

    python benchmarks/write_tables.py [docs/results/r4.md ...]

OTHERS = ("foreign_models", "growth", "promises", "repair", "speed", "texts_and_tables")
the defaults. A page has three kinds of places. The first takes what `rightreasons bench show`
prints:

    <!-- bench show r4-table1 --out benchmarks/results/r4 -->
    <!-- end -->

The second takes a table of benchmarks/findings/<paper>.py:

    <!-- table key -->
    <!-- end -->

The third is a single number of the same module. The comment behind the number names it:

    R3 has 97.2<!--r3-worst--> % of the worst group right.

Where a suite has no rows yet, the page says "not run yet" in the place of the number.
"""

import argparse
import importlib
import re
from pathlib import Path

from findings.kept import NOT_RUN, comparison, show_value

ROOT = Path(__file__).parents[1]
OTHERS = ("foreign_models", "growth", "promises", "repair", "speed", "texts_and_tables")
SUITE = re.compile(
    r"(<!-- bench show (?P<suite>\S+) --out benchmarks/results/(?P<folder>\S+) -->\n)"
    r".*?(<!-- end -->)",
    re.DOTALL,
)
TABLE = re.compile(r"(<!-- table (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
VALUE = re.compile(rf"(?:{NOT_RUN}|[-−+]?[\d.,]*(?:e-?\d+)?)<!--(?P<name>[\w-]+)-->")


def pages() -> list[Path]:
    """List the findings pages, the tables, pages of the reference and the README."""
    tables = (ROOT / "benchmarks" / "results").glob("*/tables.md")
    others = [ROOT / "docs" / "reference" / f"{name}.md" for name in OTHERS]
    results = (ROOT / "docs" / "results").glob("*.md")
    return sorted([*results, *tables, *others, ROOT / "README.md"])


def paper_of(page: Path) -> str:
    """Name the paper of a page, which is a module in benchmarks/findings."""
    if page.name == "README.md":
        return "defaults"
    return page.parent.name if page.name == "tables.md" else page.stem


def filled(page: Path) -> str:
    """Return the text of a page with its tables and numbers as the kept results give them."""
    findings = importlib.import_module(f"findings.{paper_of(page)}")
    text = page.read_text()
    for place, known in ((TABLE, findings.TABLES), (VALUE, findings.values())):
        for name in (match["name"] for match in place.finditer(text)):
            if name not in known:
                raise SystemExit(
                    f"{page}: expected a name of {findings.__file__}, but got {name!r}."
                )

    def suite(match: re.Match[str]) -> str:
        table = comparison(match["suite"], match["folder"]).to_markdown().strip()
        return f"{match[1]}\n{table}\n\n{match[4]}"

    def table(match: re.Match[str]) -> str:
        return f"{match[1]}\n{findings.TABLES[match['name']]()}\n\n{match[3]}"

    def value(match: re.Match[str]) -> str:
        return f"{show_value(findings.values()[match['name']])}<!--{match['name']}-->"

    return VALUE.sub(value, TABLE.sub(table, SUITE.sub(suite, text)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pages", nargs="*", type=Path)
    for page in parser.parse_args().pages or pages():
        page.write_text(filled(page.resolve()))


if __name__ == "__main__":
    main()
