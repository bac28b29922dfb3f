"""Numbers and tables of docs/reference/promises.md."""

from functools import cache

from findings.kept import figures, markdown

WORDS = {"refused": "refused with a sentence", "right": "judged rightly", "false": "believed"}


def traps() -> str:
    """List the models that are built to get a false certificate."""
    outcomes = figures("soundness")["traps"]
    return markdown(
        ("Model", "Outcome"), [(name, WORDS[outcome]) for name, outcome in outcomes.items()]
    )


def kinds() -> str:
    """List how many nets and points each layer kind had."""
    rows = [
        (f"`{kind}`", f"{count['ibp']:,}", f"{count['crown']:,}", f"{count['points']:,}")
        for kind, count in figures("soundness")["kinds"].items()
    ]
    return markdown(("Layer kind", "Nets, `ibp`", "Nets, `crown`", "Points"), rows)


TABLES = {"kinds": kinds, "traps": traps}


@cache
def values() -> dict[str, str]:
    """Return every number of the page by its name."""
    found = figures("soundness")
    names = {
        "nets": "nets",
        "nets-float32": "nets in float32",
        "nets-float64": "nets in float64",
        "points": "points",
        "comparisons": "comparisons",
        "layer-kinds": "layer kinds",
        "least-nets": "least nets of a kind",
        "escapes": "escapes",
        "verified": "verified samples",
        "certificate-points": "points at verified samples",
        "broken": "certificates broken",
        "false-traps": "false traps",
        "seed": "seed",
    }
    return {name: f"{found[key]:,}" for name, key in names.items()}
