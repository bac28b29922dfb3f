"""Tables and numbers of docs/reference/repair.md."""

from typing import Any

from findings.kept import figures, markdown

NETS = {"small_cnn": "small CNN", "efficientnet_lite0": "EfficientNet-Lite0"}
NOTHING = "–"


def _rows(shortcut: str) -> list[dict[str, Any]]:
    return [row for row in figures("audit/tagged_pets") if row["shortcut"] == shortcut]


def _percents(values: dict[str, float] | None) -> str:
    if values is None:
        return NOTHING
    return f"{100 * values['average']:.1f} / {100 * values['worst']:.1f}"


def _found(row: dict[str, Any], number: int) -> str:
    if len(row["findings"]) <= number:
        return NOTHING
    one = row["findings"][number]
    return f"{one['name']}, {one['strength']:.2f}"


def _points(cost: float | None) -> str:
    return NOTHING if cost is None else f"{100 * cost:.1f}"


def reached() -> str:
    """One shortcut: what the audit found, and what the repair reached beside the oracle."""
    rows = [
        (
            NETS[row["net"]],
            str(row["size"]),
            str(row["seed"]),
            _percents(row["erm"]),
            _found(row, 0),
            f"{row['iou']['masks']['test']:.2f}",
            row["repairs"]["fixed"]["chosen"] or "none",
            _percents(row["repairs"]["fixed"]["test"]),
            _percents(row["oracle"]),
        )
        for row in _rows("tag")
    ]
    head = ("Net", "Pixels", "Seed", "ERM", "First finding, planted effect", "IoU of masks")
    return markdown((*head, "Chosen", "Repaired", "Oracle"), rows)


def together() -> str:
    """Two shortcuts: what was removed, and what that left."""
    rows = []
    for row in _rows("tag_and_cast"):
        net = f"{NETS[row['net']]}, seed {row['seed']}"
        rows.append((net, "nothing (ERM)", _percents(row["erm"]), NOTHING, NOTHING, NOTHING))
        for removed, told in row["repairs"].items():
            costs = list(told["cost_of_exchange"].values())
            if removed == "second alone":
                costs = [costs[1], costs[0]]
            cells = [f"{_points(one['before'])} → {_points(one['after'])}" for one in costs[:2]]
            warned = "yes" if told["warnings"] else "no"
            name = "both" if removed == "fixed" else f"the {removed}"
            rows.append((net, name, _percents(told["test"]), *cells, warned))
        rows.append((net, "oracle", _percents(row["oracle"]), NOTHING, NOTHING, NOTHING))
    head = ("Net", "Removed", "Right", "First costs", "Second costs", "Warning")
    return markdown(head, rows)


def found() -> str:
    """What the audit found where there are two shortcuts."""
    rows = [
        (
            NETS[row["net"]],
            str(row["seed"]),
            str(number),
            one["name"],
            one["verdict"],
            f"{one['strength']:.2f} ({one['interval'][0]:.2f} to {one['interval'][1]:.2f})",
        )
        for row in _rows("tag_and_cast")
        for number, one in enumerate(row["findings"], 1)
    ]
    return markdown(("Net", "Seed", "", "Finding", "Verdict", "Planted effect"), rows)


TABLES = {"reached": reached, "together": together, "found": found}


def values() -> dict[str, float]:
    """Return the numbers in the text: there are none."""
    return {}
