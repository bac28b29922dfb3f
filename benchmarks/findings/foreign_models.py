"""Tables and numbers of docs/reference/foreign_models.md."""

import re
from functools import cache

from findings.kept import figures, markdown

NARROW = "with epsilon"


def _nets() -> dict[str, dict]:
    return figures("foreign_models")["nets"]


def _cells(row: dict) -> dict[str, str]:
    """All cells of a net by the name of the method."""
    of_recipes = {f"`{name}`": said for name, said in row["recipes"].items()}
    explainers = {f"map of `{name}`": said for name, said in row["explainers"].items()}
    return {**of_recipes, **explainers, "MaskTune": row["MaskTune"], "certify": row["certify"]}


def maps() -> str:
    """List where the weight of each explainer's map lies, for each net."""
    names = list(next(iter(_nets().values()))["explainers"])
    rows = [
        (net, *(_short(row["explainers"][name]) for name in names), _short(row["MaskTune"]))
        for net, row in _nets().items()
    ]
    return markdown(("Net", *(f"`{name}`" for name in names), "MaskTune"), rows)


def _short(said: str) -> str:
    return "refused" if said.startswith("refused") else said


def recipes() -> str:
    """List how many recipes work on each net, and which are refused."""
    rows = []
    for net, row in _nets().items():
        said = row["recipes"]
        refused = [f"`{name}`" for name, one in said.items() if one.startswith("refused")]
        narrow = [f"`{name}`" for name, one in said.items() if NARROW in one]
        works = sum(one.startswith("works") for one in said.values())
        certified = "refused" if row["certify"].startswith("refused") else "works"
        others = ", ".join(refused) if len(refused) < works else f"{len(refused)} recipes"
        rows.append((net, str(works), others or "–", ", ".join(narrow) or "–", certified))
    columns = ("Net", "Recipes that work", "Refused", "Only with a narrow box", "`certify`")
    return markdown(columns, rows)


def refusals() -> str:
    """List the sentences of refusals, each with the methods and nets it was said for."""
    found: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for net, row in _nets().items():
        for method, said in _cells(row).items():
            if not said.startswith("refused: "):
                continue
            methods, nets = found.setdefault(_pattern(said.removeprefix("refused: ")), ({}, {}))
            methods[method], nets[net] = None, None
    rows = [
        (_listed(methods), _listed(nets), sentence)
        for sentence, (methods, nets) in sorted(found.items(), key=lambda one: one[0])
    ]
    return markdown(("Method", "Net", "Sentence"), rows)


def _pattern(sentence: str) -> str:
    """The sentence, with … for what differs from net to net."""
    sentence = re.sub(r"but got (HuggingFace|Sequential|OwnViT|LastState)\b", "but got …", sentence)
    sentence = re.sub(r"but (HuggingFace|Sequential|OwnViT|LastState) has", "but … has", sentence)
    sentence = re.sub(r"(rules for bounds, but got) .* Add", r"\1 …. Add", sentence)
    sentence = re.sub(r"(depends on values)\b.*\. Use", r"\1 in …. Use", sentence)
    sentence = re.sub(r"(LRP has a rule for, but got) .*\. Use", r"\1 …. Use", sentence)
    sentence = re.sub(r"(got shape|samples of shape) \([\d, ]+\)", r"\1 …", sentence)
    sentence = re.sub(r"for (X?GradCAM|LRP), but", "for …, but", sentence)
    return sentence.replace("|", "\\|")


def _listed(names: dict[str, None]) -> str:
    return (
        ", ".join(names) if len(names) <= 6 else f"{len(names)}, such as {', '.join([*names][:3])}"
    )


TABLES = {"maps": maps, "recipes": recipes, "refusals": refusals}


@cache
def values() -> dict[str, str]:
    """Return every number of the page by its name."""
    said = [one for row in _nets().values() for one in _cells(row).values()]
    starts = {"works": "works", "weak": "weak", "refused": "refused", "wrong": "wrong"}
    counted = {name: sum(one.startswith(start) for one in said) for name, start in starts.items()}
    return {**{name: f"{count:,}" for name, count in counted.items()}, "cells": f"{len(said):,}"}
