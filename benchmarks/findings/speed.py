"""Numbers and tables of docs/reference/speed.md."""

from functools import cache
from typing import Any

from findings.kept import figures, markdown

BY_HAND_LIMIT = 1.05
TARGETS = (  # net, recipe, the largest ratio to cross-entropy that was aimed at
    ("LeNet", "r3", 2.0),
    ("ResNet-18", "r3", 2.4),
    ("LeNet", "alignment", 2.6),
    ("LeNet", "counterexamples", 1.1),
    ("MLP", "counterexamples", 1.1),
)
LOOP_TARGET, COMPILE_TARGET = 10.0, 1.3


@cache
def rows() -> dict[str, Any]:
    return figures("beside_others")


def step_of(net: str, recipe: str) -> dict[str, Any]:
    found = [row for row in rows()["steps"] if (row["net"], row["recipe"]) == (net, recipe)]
    return found[0]


@cache
def judged() -> list[tuple[bool, str, str, str]]:
    """Whether each target is met, what it is about, the target, and what was reached."""
    found = []
    for net, recipe, most in TARGETS:
        ratio = step_of(net, recipe)["beside cross-entropy"]
        what = f"`{recipe}` on {net}, beside cross-entropy"
        found.append((ratio <= most, what, f"at most {most:g}", f"{ratio:.2f}"))
    for row in rows()["steps"]:
        ratio = row.get("beside by hand", 0.0)
        if ratio > BY_HAND_LIMIT:
            what = f"`{row['recipe']}` on {row['net']}, beside by hand"
            found.append((False, what, f"at most {BY_HAND_LIMIT}", f"{ratio:.2f}"))
    for name, row in rows()["jobs"].items():
        if "times faster" in row:
            ratio = row["times faster"]
            what = f"{name}, beside a loop over samples"
            goal = f"at least {LOOP_TARGET:g} times faster"
            found.append((ratio >= LOOP_TARGET, what, goal, f"{ratio:g}"))
    best = max(row["times faster"] for row in rows()["compile"])
    goal = f"at least {COMPILE_TARGET} times faster"
    what = "a compiled gradient penalty, best net"
    found.append((best >= COMPILE_TARGET, what, goal, f"{best:.2f}"))
    return found


def missed() -> str:
    lines = [line[1:] for line in judged() if not line[0]]
    return markdown(("Missed", "Target", "Reached"), lines)


def met() -> str:
    lines = [line[1:] for line in judged() if line[0]]
    return markdown(("Met", "Target", "Reached"), lines)


def number(row: dict[str, Any], key: str) -> str:
    return f"{row[key]:.2f}" if key in row else "–"


def steps() -> str:
    keys = ("beside cross-entropy", "beside by hand", "public code beside recipe")
    lines = [
        (row["net"], str(row["samples"]), f"`{row['recipe']}`", *(number(row, key) for key in keys))
        for row in rows()["steps"]
    ]
    header = ("Net", "Samples", "Recipe", "Beside cross-entropy", "Beside by hand", "Public code")
    return markdown(header, lines)


def peers() -> str:
    lines = [
        (row["what"], row["library"], f"{row['theirs beside ours']:.2f}")
        for row in rows()["peers"]["rows"]
    ]
    return markdown(("What", "Library", "Its time beside ours"), lines)


def jobs() -> str:
    lines = [
        (
            name,
            f"{row['seconds']:g}",
            f"{row['sample by sample']:g}" if "sample by sample" in row else "–",
        )
        for name, row in rows()["jobs"].items()
    ]
    return markdown(("For 1,000 samples", "Seconds", "Sample by sample"), lines)


def growth() -> str:
    lines = [
        (
            axis,
            found["what"],
            str(row["value"]),
            f"{row['beside the first']:.2f}",
            f"{row['cross-entropy beside the first']:.2f}",
        )
        for axis, found in rows()["growth"].items()
        for row in found["rows"]
    ]
    header = ("Grows", "Step", "Value", "Time beside the first", "Cross-entropy beside the first")
    return markdown(header, lines)


def passes() -> str:
    lines = [
        (
            row["net"],
            f"`{row['recipe']}`",
            f"{row['passes made']:.2f}",
            f"{row['passes needed']:g}" if "passes needed" in row else "–",
            f"{row['kernels']:.2f}",
        )
        for row in rows()["passes"]
    ]
    return markdown(("Net", "Recipe", "Passes made", "Needed", "Kernels"), lines)


def compiled() -> str:
    lines = [
        (
            row["net"],
            f"`{row['recipe']}`",
            f"{row['times faster']:.2f}",
            f"{row['times faster in bfloat16']:.2f}",
            f"{row['convolutions']:.2f}",
            f"{row['other operations']:.2f}",
            f"{row['seconds to compile']:.0f}",
            f"{row['largest difference']:.0e}",
            f"{row['difference of double precision']:.0e}"
            if "difference of double precision" in row
            else "–",
        )
        for row in rows()["compile"]
    ]
    header = (
        *("Net", "Recipe", "Compiled, times faster", "bfloat16, times faster"),
        *(
            "Products",
            "Other operations",
            "Seconds to compile",
            "Largest difference",
            "Eager from double",
        ),
    )
    return markdown(header, lines)


TABLES = {
    "missed": missed,
    "met": met,
    "steps": steps,
    "peers": peers,
    "jobs": jobs,
    "growth": growth,
    "passes": passes,
    "compiled": compiled,
}


@cache
def values() -> dict[str, str]:
    """Return every number of the page by its name."""
    machine = rows()["machine of steps"]
    return {
        "cores": str(machine["cores"]),
        "threads": str(machine["threads"]),
        "r3-lenet": f"{step_of('LeNet', 'r3')['beside cross-entropy']:.2f}",
        "r3-lenet-hand": f"{step_of('LeNet', 'r3')['by hand beside cross-entropy']:.2f}",
    }
