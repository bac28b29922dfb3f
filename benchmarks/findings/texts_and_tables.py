"""Tables and numbers of docs/reference/texts_and_tables.md."""

from functools import cache
from statistics import mean
from typing import Any

from findings.kept import NOT_RUN, RESULTS, cell, figures, markdown, measured, percent

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


METHODS = ("ERM", "R3", "Smooth-R3", "Rand-R4", "Adv-R4", "counterexamples", "oracle")


def imdb() -> str:
    """Compare the groups of Decoy IMDB with the paper's."""
    suite, rows = measured("r4-text"), []
    for method in METHODS:
        found = suite["imdb", method]
        ours_here = [
            cell(found[name]["ours"], absent=NOT_RUN)
            for name in ("average group", "worst group", "worst, no word")
        ]
        rows.append((method, *ours_here, cell(found["worst group"]["paper"])))
    return markdown(("method", "average", "worst group", "worst, no word", "paper, worst"), rows)


GUIDANCE = {
    ("none", "erm"): "ERM",
    ("rationale", "r3"): "R3, outside of rationales",
    ("rationale", "counterexamples"): "counterexamples, outside of rationales",
    ("identity", "counterexamples"): "counterexamples, words for people",
}
NETS = {"text_cnn": "convolutions"}
TARGETS = {"counterexamples": "1.05", "R3": "3.2", "Rand-R4, 3 draws": "5"}


def _posts() -> list[dict[str, Any]]:
    """The rows of the nets that rationales guide; none if the script was not run yet."""
    return list(figures("rationales")) if (RESULTS / "rationales.json").exists() else []


def rationales() -> str:
    """List what guidance by rationales does, mean over seeds."""
    keys = ("accuracy", "f1_gradient", "f1_input_times_gradient")
    keys += ("false_positives_with", "false_positives_without", "flipped")
    lines = []
    for model, net in NETS.items():
        for (masked, recipe), name in GUIDANCE.items():
            wanted = (model, masked, recipe)
            rows = [
                one for one in _posts() if (one["model"], one["masked"], one["recipe"]) == wanted
            ]
            shown = [percent(mean(row[key] for row in rows)) if rows else NOT_RUN for key in keys]
            lines.append((net, name, *shown, str(len(rows))))
    header = ("net", "guided by", "right", "F1 of gradients", "F1 of input × gradient")
    header += ("false alarms, with such a word", "without", "flipped", "seeds")
    return markdown(header, lines)


def step_time() -> str:
    """Show the time of steps beside a step by hand."""
    rows = [
        (step, str(part["batch"]), f"{ratio:.2f}", TARGETS.get(step, "–"))
        for part in figures("text_step_time").values()
        for step, ratio in part["ratios"].items()
    ]
    return markdown(("step", "texts in a batch", "ratio", "aim, at most"), rows)


TABLES = {
    "adult": adult,
    "certificates": certificates,
    "rationales": rationales,
    "cost": step_time,
    "imdb": imdb,
}


@cache
def values() -> dict[str, str]:
    """Return every number of the page by its name."""
    rows = figures("text_certificates")
    usual, posts = figures("text_step_time")["usual"], _posts()
    chosen = [row["chosen"] for row in rows if row["recipe"] == "counterexamples"]
    return {
        "reviews": f"{rows[0]['reviews']:,}",
        "seeds": str(len({row["seed"] for row in rows})),
        "length": str(rows[0]["max_length"]),
        "slowest": f"{max(row['seconds'] for row in rows):.0f}",
        "contradictions": str(sum(row["contradictions"] for row in rows)),
        "consistency": " and ".join(sorted({f"{one['consistency']:g}" for one in chosen})),
        "tokens": str(usual["tokens"]),
        "by-hand": f"{1 / usual['ratios']['cross-entropy']:.2f}",
        "rand-step": f"{usual['ratios']['Rand-R4, 3 draws']:.2f}",
        **{
            f"posts-{model}": next(
                (f"{one['posts']:,}" for one in posts if one["model"] == model), NOT_RUN
            )
            for model in NETS
        },
        "f1-chance": percent(posts[0]["f1_chance"]) if posts else NOT_RUN,
        "least-proved": percent(
            min(row["proved"] for row in rows if row["recipe"] == "counterexamples")
        ),
    }
