"""Write the lists of names, settings, papers and files into the pages that show them.

A page marks the place of a list::

    <!-- list recipes: settings -->
    <!-- end -->

What stands between the two lines is replaced. Everything comes from the registries, the
docstrings and the signatures, so that a new recipe, metric, data set or model is listed by itself.
Usage: ``python tools/write_lists.py``, which needs no network.
"""

from __future__ import annotations

import inspect
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

# All that this tool takes from the inside of the library.
from rightreasons import Term, objectives
from rightreasons.benchmark import SUITES
from rightreasons.datasets.registry import DATASETS
from rightreasons.explainers import EXPLAINERS
from rightreasons.metrics import METRICS
from rightreasons.models.registry import MODELS
from rightreasons.objectives.recipes import RECIPES
from rightreasons.strategies import STRATEGIES

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "CONTENTS.md",
    ROOT / "docs" / "objectives.md",
    ROOT / "docs" / "reference" / "names.md",
    ROOT / "docs" / "reference" / "units.md",
]
REGISTRIES: dict[str, Mapping[str, Callable[..., Any]]] = {
    "recipes": RECIPES,
    "strategies": STRATEGIES,
    "metrics": METRICS,
    "data sets": DATASETS,
    "models": MODELS,
    "explainers": EXPLAINERS,
    "suites": SUITES,
}
FROM_THE_DATA = {"channels", "classes", "inputs", "size"}  # settings of models
# Units of terms whose docstrings do not say "Unit: ...".
UNITS = {
    "CVAR": "nats",
    "CosineAlignment": "none, from 0 to 1",
    "GroupDRO": "nats",
    "IGA": "none, at most log(1 + e²)",
    "SpectralDecoupling": "(logits) squared",
    "WeightDecay": "sum of squared parameters",
}
PLACE = re.compile(r"(<!-- list ([a-z ]+): ([a-z]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str) -> str:
    """A page's text with every marked list written anew."""
    return PLACE.sub(lambda place: f"{place[1]}{list_of(place[2], place[3])}{place[4]}", text)


def list_of(kind: str, view: str) -> str:
    """One list as lines of Markdown: ``kind`` is of what, ``view`` with which columns."""
    if view == "settings":
        return settings_of(kind)
    if kind == "terms":
        rows = [(code(name), unit_of(term)) for name, term in terms().items()]
        return table(["Term", "Unit"], rows)
    heading = kind.removesuffix("s").replace("strategie", "strategy").capitalize()
    columns = COLUMNS[view] if kind == "recipes" or view != "files" else ("papers", "file")
    rows = [
        (code(name), first_line(made), *(CELLS[column](name, made) for column in columns))
        for name, made in REGISTRIES[kind].items()
    ]
    titles = [TITLES[column] for column in columns]
    return table([heading, "What it is", *titles], rows)


def settings_of(kind: str) -> str:
    """The settings of all members of a kind; what all have alike is said once, in a line above."""
    settings = {name: own_settings(kind, made) for name, made in REGISTRIES[kind].items()}
    common = set.intersection(*(set(shown.items()) for shown in settings.values()))
    rows = [
        (code(name), ", ".join(f"`{key}` {value}" for key, value in shown.items()) or "–")
        for name, shown in (
            (name, {key: value for key, value in shown.items() if (key, value) not in common})
            for name, shown in settings.items()
        )
    ]
    lines = table(["Name", "Settings and defaults"], rows)
    if not common:
        return lines
    alike = ", ".join(f"`{key}` ({value})" for key, value in sorted(common))
    return f"\nAll take {alike}.\n\n{lines.lstrip()}"


def own_settings(kind: str, made: Callable[..., Any]) -> dict[str, str]:
    """The keyword settings of one member and their defaults as text."""
    return {
        parameter.name: shown(parameter.default)
        for parameter in inspect.signature(made).parameters.values()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        and not (kind == "models" and parameter.name in FROM_THE_DATA)
    }


def shown(value: object) -> str:
    """A default as a person writes it: ``4/255``, ``none``, ``[1, 2]``."""
    if value is None:
        return "none"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple | list):
        return even_steps(value) or f"[{', '.join(shown(item) for item in value)}]"
    if isinstance(value, float):
        for below in (3, 255):
            above = value * below
            if len(f"{value:.12g}") > 8 and abs(above - round(above)) < 1e-9:
                return f"{round(above)}/{below}"
        return f"{value:g}"
    return str(value)


def even_steps(values: tuple[Any, ...] | list[Any]) -> str:
    """Many numbers in even steps as ``0 to 0.95 by 0.05``; empty for anything else."""
    if len(values) < 8:
        return ""
    step = values[1] - values[0]
    even = all(abs(b - a - step) < 1e-9 for a, b in zip(values, values[1:], strict=False))
    return f"{values[0]:g} to {values[-1]:g} by {step:g}" if even else ""


def first_line(thing: object) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(thing) or "").split("\n", 1)[0].replace("|", "\\|")


def file_of(thing: Callable[..., Any]) -> str:
    """The file that defines a function or class, below ``src/rightreasons``."""
    return "/".join(thing.__module__.split(".")[1:]) + ".py"


def parts_of(recipe: str) -> list[Term]:
    """The terms that a recipe adds up, with its defaults."""
    return list(RECIPES.create(recipe).terms.values())


def terms() -> dict[str, type[Term]]:
    """Every term that can be made, by its name."""
    exported = {name: getattr(objectives, name) for name in sorted(objectives.__all__)}
    return {
        name: thing
        for name, thing in exported.items()
        if inspect.isclass(thing) and issubclass(thing, Term) and not inspect.isabstract(thing)
    }


def unit_of(term: type[Term]) -> str:
    """What follows "Unit:" in the docstring of a term, up to the end of the sentence."""
    prose = " ".join((inspect.getdoc(term) or "").split())
    said = re.search(r"Unit: (.+?)[.;](?:\s|$)", prose)
    return said[1] if said else UNITS[term.__name__]


def keys_of(thing: object) -> list[str]:
    """The keys that a docstring has under ``References:``."""
    section = re.search(r"References:\n((?:[ \t]+.+\n?)+)", inspect.getdoc(thing) or "")
    return re.findall(r"[a-z]+\d{4}[a-z]+", section[1]) if section else []


def papers_of(name: str, made: Callable[..., Any]) -> str:
    """The papers of a member, as author and year, each once."""
    keys = keys_of(made)
    if RECIPES.get(name) is made:
        keys += [key for part in parts_of(name) for key in keys_of(type(part))]
    elif SUITES.get(name) is made:
        keys += [key for key in [SUITES.create(name).paper] if key]
    return "; ".join(citation(key) for key in dict.fromkeys(keys)) or "–"


@cache
def citation(key: str) -> str:
    """A paper of the bibliography as "Ross et al. 2017"."""
    text = (ROOT / "docs" / "bibliography.bib").read_text()
    entry = re.search(rf"^@\w+{{{key},$(.*?)^}}", text, re.MULTILINE | re.DOTALL)
    if entry is None:
        raise SystemExit(f"Expected {key} in docs/bibliography.bib, but it is not there.")
    authors = re.search(r"author\s*=\s*\{(.+)\},$", entry[1], re.MULTILINE)
    year = re.search(r"year\s*=\s*\{(\d+)\}", entry[1])
    surnames = [surname(author) for author in (authors[1] if authors else "").split(" and ")]
    several = " et al." if len(surnames) > 2 else ""
    first = surnames[0] + several if several else " & ".join(surnames)
    return f"{first} {year[1] if year else ''}"


def surname(author: str) -> str:
    """The surname of a BibTeX author, accents as letters."""
    accents = {"'": "\u0301", "`": "\u0300", '"': "\u0308", "^": "\u0302", "~": "\u0303"}
    name = author.split(",")[0] if "," in author else author.split()[-1]
    name = re.sub(r"\{?\\(['`\"^~])\{?(\w)\}?\}?", lambda found: found[2] + accents[found[1]], name)
    return unicodedata.normalize("NFC", name).strip("{} ")


def code(name: str) -> str:
    """A name as code."""
    return f"`{name}`"


def table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table with an empty line on both sides."""
    titles = list(titles)
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


TITLES = {"papers": "Papers", "file": "File", "terms": "Terms", "better": "Better"}
COLUMNS: dict[str, tuple[str, ...]] = {
    "files": ("terms", "papers", "file"),
    "papers": ("papers",),
    "better": ("better",),
}
CELLS: dict[str, Callable[[str, Any], str]] = {
    "papers": papers_of,
    "file": lambda name, made: code(file_of(made)),
    "terms": lambda name, made: " + ".join(code(type(part).__name__) for part in parts_of(name)),
    "better": lambda name, made: "high" if made.higher_is_better else "low",
}


def main() -> None:
    """Write the lists of all pages."""
    for page in PAGES:
        before = page.read_text()
        after = filled(before)
        if after != before:
            page.write_text(after)
            print(f"Wrote {page.relative_to(ROOT)}.")


if __name__ == "__main__":
    main()
