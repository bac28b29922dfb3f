"""Tables and numbers of docs/reference/texts_and_tables.md."""

from functools import cache
from statistics import mean

from findings.kept import figures, markdown, percent

NAMES = {
    "erm": "ERM",
    "counterexamples": "counterexamples with consistency",
    "ibp_ex": "IBP-Ex",
}


def _mean(recipe: str, key: str) -> float:
    return mean(row[key] for row in figures("text_certificates") if row["recipe"] == recipe)


def certificates() -> str:
    """List what is proved of each recipe's net, mean over seeds."""
    keys = ("accuracy", "accuracy_without_words", "proved", "proved_by_bounds")
    rows = [
        (name, *(percent(_mean(recipe, key)) for key in keys), f"{_mean(recipe, 'seconds'):.0f}")
        for recipe, name in NAMES.items()
    ]
    header = ("Recipe", "right", "right without names", "proved", "proved by bounds", "seconds")
    return markdown(header, rows)


def adult() -> str:
    """List what the masked columns of Adult can change, and where the audit ranks `sex`."""
    rows = [
        (
            NAMES[row["recipe"]].removesuffix(" with consistency"),
            row["masked"].replace(",", ", "),
            percent(row["accuracy"]),
            percent(row["group_accuracy/worst"]),
            percent(row["substitution_sensitivity"]),
            percent(row["proved"]),
            f"{row['rank_tells']} of {row['columns']}",
            f"{row['planted_effect']:.2f}",
        )
        for row in figures("adult_sex")
    ]
    header = (
        "Recipe",
        "masked",
        "right",
        "worst group",
        "flipped",
        "proved",
        "rank of `sex`",
        "planted effect of `sex`",
    )
    return markdown(header, rows)


TABLES = {"adult": adult, "certificates": certificates}


@cache
def values() -> dict[str, str]:
    """Return every number of the page by its name."""
    rows = figures("text_certificates")
    chosen = [row["chosen"] for row in rows if row["recipe"] == "counterexamples"]
    return {
        "reviews": f"{rows[0]['reviews']:,}",
        "seeds": str(len({row["seed"] for row in rows})),
        "length": str(rows[0]["max_length"]),
        "slowest": f"{max(row['seconds'] for row in rows):.0f}",
        "contradictions": str(sum(row["contradictions"] for row in rows)),
        "consistency": " and ".join(sorted({f"{one['consistency']:g}" for one in chosen})),
        "least-proved": percent(
            min(row["proved"] for row in rows if row["recipe"] == "counterexamples")
        ),
    }
