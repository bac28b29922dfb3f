"""Write what `rightreasons bench show` prints into the pages that quote it.

A page says where a table goes, and this script fills it in:

    <!-- bench show r4-table1 --out benchmarks/results/r4 -->
    <!-- end -->

    python benchmarks/write_tables.py [docs/results/r4.md ...]
"""

import argparse
import re
from pathlib import Path

from rightreasons import benchmark

ROOT = Path(__file__).parents[1]
PLACE = re.compile(
    r"(<!-- bench show (?P<suite>\S+) --out (?P<folder>\S+) -->\n).*?(<!-- end -->)", re.DOTALL
)


def filled(text: str) -> str:
    """The page with its tables as the committed rows give them."""

    def table(place: re.Match[str]) -> str:
        comparison = benchmark.show_suite(place["suite"], ROOT / place["folder"])
        return f"{place[1]}\n{comparison.to_markdown().strip()}\n\n{place[4]}"

    return PLACE.sub(table, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pages", nargs="*", type=Path)
    pages = parser.parse_args().pages or sorted((ROOT / "docs" / "results").glob("*.md"))
    for page in pages:
        page.write_text(filled(page.read_text()))


if __name__ == "__main__":
    main()
